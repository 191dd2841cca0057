"""What a host has besides cores."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tuner.hosts.features import HostFeatures, look


def put(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_host(tmp_path: Path) -> None:
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    put(tmp_path, f"usr/lib/{arch}/libjemalloc.so.2")
    put(tmp_path, "usr/lib64/libtcmalloc_minimal.so.4")
    put(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    for name, state in (("lo", "unknown"), ("eth0", "up"), ("eth1", "down"), ("ib0", "up")):
        put(tmp_path, f"sys/class/net/{name}/operstate", f"{state}\n")
    for cpu, package in ((0, 0), (1, 0), (2, 1)):
        put(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{package}")
    found = look(
        {"LD_PRELOAD": "/a.so", "GLIBC_TUNABLES": "x=1"}, root=tmp_path, glibc="glibc 2.36"
    )
    assert found == HostFeatures(
        allocators={
            "jemalloc": str(tmp_path / "usr/lib" / arch / "libjemalloc.so.2"),
            "tcmalloc": str(tmp_path / "usr/lib64/libtcmalloc_minimal.so.4"),
        },
        preload="/a.so",
        tunables="x=1",
        huge_pages="madvise",
        glibc=(2, 36),
        interfaces=("eth0", "ib0"),
        sockets=2,
    )


def test_a_host_that_shows_nothing(tmp_path: Path) -> None:
    assert look({}, root=tmp_path, glibc="") == HostFeatures({})
