"""What a host has, read from trees made for the test."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tests.host_files import plant
from tuner.hosts.machine import HostFeatures, host_features, this_machine
from tuner.model import Machine

UUID = "GPU-aaaaaaaa-1111-2222-3333-444444444444"


def look(root: Path, *, affinity_cpus: int = 8, **environ: str) -> Machine:
    return this_machine(root=root, environ=environ, affinity_cpus=affinity_cpus)


def test_cores_nodes_memory_and_model(tmp_path: Path) -> None:
    cpus = {
        f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}\n"
        for n in range(8)
    }
    plant(
        tmp_path,
        {
            **cpus,
            "sys/devices/system/cpu/cpufreq/boost": "1",
            "sys/devices/system/cpu/online": "0-7\n",
            "sys/devices/system/node/online": "0-1,4\n",
            "proc/meminfo": "MemTotal:        1024 kB\nMemFree: 5 kB\n",
            "proc/cpuinfo": "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 7\n",
        },
    )
    machine = look(tmp_path)
    assert (machine.logical_cpus, machine.physical_cores, machine.numa_nodes) == (8, 4, 3)
    assert machine.memory_bytes == 1024 * 1024
    assert machine.cpu_model == "AMD EPYC 7"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"a/b/cpu.max": "max 100000\n"}, None),
        ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ({"a/b/cpu.max": "max 100000", "cpu.max": "300000 100000"}, 3.0),
        ({"unified/a/b/cpu.max": "100000 100000"}, 1.0),
        ({"a/b/cpu.max": "nonsense"}, None),
        ({"a/b/cpu.max": ""}, None),
        ({"a/b/c/cpu.max": "100000 100000", "z/cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_of_cgroup_v2(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    plant(tmp_path, {"proc/self/cgroup": "0::/a/b\n"})
    plant(tmp_path / "sys/fs/cgroup", files)
    assert look(tmp_path).quota_cpus == quota


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(
    ("folder", "quota", "expected"),
    [("docker/x", "250000", 2.5), ("", "50000", 0.5), ("docker/x", "-1", None)],
)
def test_the_quota_of_cgroup_v1(
    tmp_path: Path, mount: str, folder: str, quota: str, expected: float | None
) -> None:
    plant(tmp_path, {"proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n"})
    place = tmp_path / "sys/fs/cgroup" / mount / folder
    plant(place, {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"})
    assert look(tmp_path).quota_cpus == expected


def test_a_path_out_of_the_namespace_is_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/self/cgroup": "0::/../../a\n", "sys/a/cpu.max": "100000 100000"})
    assert look(tmp_path).quota_cpus is None


@pytest.mark.parametrize(
    ("affinity", "quota", "cores"), [(8, "200000", 2), (1, "400000", 1), (8, "20000", 1)]
)
def test_usable_cores_are_the_smaller_of_affinity_and_quota(
    tmp_path: Path, affinity: int, quota: str, cores: int
) -> None:
    plant(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": f"{quota} 100000"})
    assert look(tmp_path, affinity_cpus=affinity).cores == cores


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a/memory.max", "4096", 4096),
        ("a/memory.max", "max", 2**20),
        ("memory/a/memory.limit_in_bytes", "8192", 8192),
        ("memory/memory.limit_in_bytes", "9223372036854771712", 2**20),
    ],
)
def test_the_memory_limit(tmp_path: Path, name: str, text: str, expected: int) -> None:
    plant(
        tmp_path,
        {
            "proc/self/cgroup": "3:memory:/a\n0::/a\n",
            "proc/meminfo": "MemTotal: 1024 kB",
            f"sys/fs/cgroup/{name}": text,
        },
    )
    assert look(tmp_path).memory_bytes == expected


def gpus(root: Path) -> None:
    def card(model: str, uuid: str, minor: int) -> str:
        return (
            f"Model: \t\t {model}\nIRQ:   \t\t 33\nGPU UUID: \t {uuid}\n"
            f"Bus Location: \t 0000:01:00.0\nDevice Minor: \t {minor}\n"
        )

    plant(
        root,
        {
            "dev/nvidia0": "",
            "dev/nvidia1": "",
            "dev/nvidiactl": "",
            "dev/nvidia-uvm": "",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": card("NVIDIA H200", UUID, 1),
            "proc/driver/nvidia/gpus/0000:02:00.0/information": card("NVIDIA A2", "GPU-b", 0),
            "proc/driver/nvidia/gpus/0000:03:00.0/information": card("NVIDIA X", "GPU-c", 2),
        },
    )


def test_gpus_are_those_whose_device_is_here_in_bus_order(tmp_path: Path) -> None:
    gpus(tmp_path)
    assert look(tmp_path).gpus == ("NVIDIA H200", "NVIDIA A2")


def test_device_files_alone_are_gpus_without_a_name(tmp_path: Path) -> None:
    plant(tmp_path, {"dev/nvidia3": "", "dev/nvidia-modeset": ""})
    assert look(tmp_path).gpus == ("NVIDIA GPU",)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("", ()),
        ("-1", ()),
        ("1", ("NVIDIA A2",)),
        ("1,0", ("NVIDIA A2", "NVIDIA H200")),
        ("0, 1", ("NVIDIA H200", "NVIDIA A2")),
        ("0,-1,1", ("NVIDIA H200",)),
        ("0,7,1", ("NVIDIA H200",)),
        ("GPU-aaaaaaaa", ("NVIDIA H200",)),
        (UUID + ",GPU-b", ("NVIDIA H200", "NVIDIA A2")),
        ("GPU-nobody", ()),
        ("MIG-1234", ("MIG device",)),
        ("NoDevFiles", ()),
    ],
)
def test_cuda_visible_devices(tmp_path: Path, visible: str, expected: tuple[str, ...]) -> None:
    gpus(tmp_path)
    assert look(tmp_path, CUDA_VISIBLE_DEVICES=visible).gpus == expected


def test_a_host(tmp_path: Path) -> None:
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    plant(tmp_path, {f"usr/lib/{arch}/libjemalloc.so.2": ""})
    plant(tmp_path, {"usr/lib64/libtcmalloc_minimal.so.4": ""})
    huge = "sys/kernel/mm/transparent_hugepage/enabled"
    plant(tmp_path, {huge: "always [madvise] never\n"})
    for name, state in (("lo", "unknown"), ("eth0", "up"), ("eth1", "down"), ("ib0", "up")):
        plant(tmp_path, {f"sys/class/net/{name}/operstate": f"{state}\n"})
    for cpu, package in ((0, 0), (1, 0), (2, 1)):
        plant(
            tmp_path,
            {f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": f"{package}"},
        )
    found = host_features(
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
    assert host_features({}, root=tmp_path, glibc="") == HostFeatures({})
