"""What a host has besides cores that knobs depend on: allocators, huge pages, interfaces."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: File names of the allocators' libraries, the better first.
_ALLOCATORS = {
    "jemalloc": ("libjemalloc.so.2",),
    "tcmalloc": ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"),
}
_FOLDERS = ("usr/lib64", "usr/lib", "usr/local/lib", "lib64", "lib")


@dataclass(frozen=True)
class HostFeatures:
    """What was found; empty if it could not be read.

    ``allocators`` are paths by name, ``preload`` and ``tunables`` the user's own LD_PRELOAD and
    GLIBC_TUNABLES, ``huge_pages`` is the kernel's word for transparent ones, ``sockets`` the
    number of processors.
    """

    allocators: Mapping[str, str]
    preload: str = ""
    tunables: str = ""
    huge_pages: str = ""
    glibc: tuple[int, ...] = ()
    interfaces: tuple[str, ...] = ()
    sockets: int = 1


def look(
    environ: Mapping[str, str], *, root: Path = Path("/"), glibc: str | None = None
) -> HostFeatures:
    """Look around.

    Args:
        environ: The user's environment.
        root: The tree that holds ``sys`` and ``usr``.
        glibc: Its version as the C library says it; ``None`` asks.
    """
    if glibc is None:
        glibc = (
            os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
        )
    number = re.search(r"(\d{1,3})\.(\d{1,3})", glibc or "")
    chosen = re.search(r"\[(\w+)\]", _read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return HostFeatures(
        allocators=dict(_allocators(root, environ)),
        preload=environ.get("LD_PRELOAD", ""),
        tunables=environ.get("GLIBC_TUNABLES", ""),
        huge_pages=chosen.group(1) if chosen else "",
        glibc=tuple(map(int, number.groups())) if number else (),
        interfaces=tuple(_interfaces(root / "sys/class/net")),
        sockets=_sockets(root),
    )


def is_allocator(library: str) -> bool:
    """True for the path of a library that malloc may come from."""
    name = library.rpartition("/")[2]
    return name.startswith(
        ("libjemalloc", "libtcmalloc", "libmimalloc", "libhoard", "libtbbmalloc")
    )


def _allocators(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    folders = [Path(f) for f in environ.get("LD_LIBRARY_PATH", "").split(":") if f.startswith("/")]
    folders.append(Path(sys.prefix) / "lib")
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in _FOLDERS:
        folders += [root / folder / arch, root / folder] if arch else [root / folder]
    for name, files in _ALLOCATORS.items():
        paths = (str(folder / file) for file in files for folder in folders)
        # The loader would take a blank or a colon for the end of the path.
        found = next((p for p in paths if not re.search(r"[\s:]", p) and Path(p).is_file()), None)
        if found is not None:
            yield name, found


def _interfaces(folder: Path) -> Iterator[str]:
    """Network interfaces that are not down, without the loopback."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are enough, and cheaper
    except OSError:
        return
    for name in names:
        if name != "lo" and _read(folder / name / "operstate") != "down":
            yield name


def _sockets(root: Path) -> int:
    ids = {
        _read(path)
        for path in (root / "sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
    }
    return max(1, len(ids - {""}))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
