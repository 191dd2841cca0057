"""What this host has for the processes started here: CPUs, memory, GPUs, and what knobs need.

It is read from ``/proc``, ``/sys`` and ``/dev``. A file that is missing or foreign is never an
error: the answer then falls back to what Python itself knows. Nothing is started.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.procfs import cgroup_folders, names
from tuner.model import Machine

#: cgroup v1 says "no limit" with the largest multiple of the page size: a limit of this many bytes
#: (4 EiB) or more is none.
_NO_MEMORY_LIMIT = 2**62

#: A number as the kernel writes it, of at most 64 bits.
_NUMBER = re.compile(r"[0-9]{1,20}")
_GPU_DEVICE = re.compile(r"nvidia(\d{1,9})", re.ASCII)

#: File names of the allocators' libraries; of several the first is the best.
_ALLOCATORS = {
    "jemalloc": ("libjemalloc.so.2",),
    "tcmalloc": ("libtcmalloc.so.4", "libtcmalloc_minimal.so.4"),
}
_FOLDERS = ("usr/lib64", "usr/lib", "usr/local/lib", "lib64", "lib")


def this_machine(
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    affinity_cpus: int | None = None,
) -> Machine:
    """Describe the host as the ranks will find it.

    ``root`` holds ``proc``, ``sys`` and ``dev``; ``environ`` of ``None`` is that of this process;
    ``affinity_cpus`` CPUs may be used, and with ``None`` the kernel says how many.
    """
    if affinity_cpus is None:
        affinity_cpus = len(os.sched_getaffinity(0))
    cpus = root / "sys/devices/system/cpu"
    logical = _count_list(_read(cpus / "online")) or os.cpu_count() or 1
    # Distinct sets of hardware threads that share a core.
    siblings = {_read(path) for path in cpus.glob("cpu[0-9]*/topology/thread_siblings_list")}
    model = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    total = re.search(r"^MemTotal:\s*(\d{1,15}) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    limits_bytes = [int(total.group(1)) * 1024] if total else []
    for numbers in _limits(root, "memory.max", "memory", "memory.limit_in_bytes"):
        limits_bytes += [number for number in numbers if number < _NO_MEMORY_LIMIT]
    # A quota and its period; without a quota the first is a word, or negative.
    times_us = _limits(root, "cpu.max", "cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    quotas = [numbers[0] / numbers[1] for numbers in times_us if len(numbers) == 2]
    return Machine(
        hostname=socket.gethostname(),
        cpu_model=model.group(1).strip() if model else platform.machine(),
        logical_cpus=logical,
        physical_cores=len(siblings - {""}) or logical,
        affinity_cpus=max(1, affinity_cpus),
        quota_cpus=min(quotas, default=None),
        numa_nodes=_count_list(_read(root / "sys/devices/system/node/online")) or 1,
        memory_bytes=min(limits_bytes, default=0),
        gpus=_gpus(root, os.environ if environ is None else environ),
    )


def _read(path: Path) -> str:
    """Return the text of a small file; empty if it is missing or unreadable.

    Of a long one (``/proc/cpuinfo`` of a large host) only the first page is read.
    """
    try:
        with path.open(errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _count_list(text: str) -> int:
    """Return how many numbers the kernel's list notation holds: ``0-3,8`` holds five."""
    ranges = re.findall(r"\b(\d{1,6})(?:-(\d{1,6}))?\b", text, re.ASCII)
    return sum(max(0, int(last or first) - int(first) + 1) for first, last in ranges)


def _limits(root: Path, in_v2: str, controller: str, *in_v1: str) -> Iterator[list[int]]:
    """Yield the limit of each cgroup above this process that has one: the numbers in its files.

    cgroup v2 has one file for a limit, v1 one or more below the folder of a controller.
    """
    files: list[tuple[str, tuple[str, ...]]]
    files = [(folder, (in_v2,)) for folder in cgroup_folders(root=str(root))]
    files += [(folder, in_v1) for folder in cgroup_folders(controller, root=str(root))]
    for folder, file_names in files:
        words = [word for name in file_names for word in _read(Path(folder, name)).split()]
        if words and all(_NUMBER.fullmatch(word) and int(word) for word in words):
            yield [int(word) for word in words]


# --- GPUs --------------------------------------------------------------------------------


def _gpus(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that a process started here can open, in bus order.

    A GPU counts if its device file is there (a container often has only some of them) and
    ``CUDA_VISIBLE_DEVICES`` does not hide it.
    """
    matches = filter(None, map(_GPU_DEVICE.fullmatch, names(f"{root}/dev")))
    devices = sorted(int(match.group(1)) for match in matches)
    by_minor: dict[int, tuple[str, str]] = {}  # (name, UUID) by device minor, by bus address
    folder = root / "proc/driver/nvidia/gpus"
    for bus in sorted(names(str(folder))):
        text = _read(folder / bus / "information")
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.MULTILINE))
        minor = fields.get("Device Minor", "")
        if _NUMBER.fullmatch(minor):
            by_minor[int(minor)] = fields.get("Model", "NVIDIA GPU"), fields.get("GPU UUID", "")
    order = [minor for minor in by_minor if minor in devices]
    order += [minor for minor in devices if minor not in by_minor]
    gpus = [by_minor.get(minor, ("NVIDIA GPU", "")) for minor in order]
    visible = visible_gpus([uuid for _, uuid in gpus], environ.get("CUDA_VISIBLE_DEVICES"))
    return tuple("MIG device" if index is None else gpus[index][0] for index in visible)


def visible_gpus(uuids: Sequence[str], visible: str | None) -> list[int | None]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` lists, by index; ``None`` for a part of one.

    As in CUDA, entries after the first bad one do not count; without the variable all GPUs do.
    """
    if visible is None:
        return [*range(len(uuids))]
    indices: list[int | None] = []
    for entry in (part.strip() for part in visible.split(",")):
        with_prefix = [index for index, uuid in enumerate(uuids) if uuid.startswith(entry)]
        if _NUMBER.fullmatch(entry) and int(entry) < len(uuids):
            indices.append(int(entry))
        elif entry.startswith("MIG-") and uuids:
            indices.append(None)
        elif entry.startswith("GPU-") and with_prefix:
            indices.append(with_prefix[0])
        else:
            break
    return indices


# --- what knobs depend on besides cores ----------------------------------------------------


@dataclass(frozen=True)
class HostFeatures:
    """What knobs depend on besides cores; empty if it could not be read."""

    allocators: Mapping[str, str]  # paths by name
    preload: str = ""  # the user's own LD_PRELOAD
    tunables: str = ""  # the user's own GLIBC_TUNABLES
    huge_pages: str = ""  # the kernel's setting of transparent huge pages: always, madvise, never
    glibc: tuple[int, ...] = ()
    interfaces: tuple[str, ...] = ()  # of the networks that all hosts share, if there are several
    sockets: int = 1  # processors
    has_numactl: bool = False


def host_features(
    environ: Mapping[str, str], *, root: Path = Path("/"), glibc: str | None = None
) -> HostFeatures:
    """Find what knobs depend on; ``glibc`` is its version in words, ``None`` asks the system."""
    if glibc is None and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        glibc = os.confstr("CS_GNU_LIBC_VERSION")
    version = re.search(r"(\d{1,3})\.(\d{1,3})", glibc or "")
    pages = re.search(r"\[(\w+)\]", _read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    packages = (root / "sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
    return HostFeatures(
        allocators=dict(_allocators(root, environ)),
        preload=environ.get("LD_PRELOAD", ""),
        tunables=environ.get("GLIBC_TUNABLES", ""),
        huge_pages=pages.group(1) if pages else "",
        glibc=tuple(map(int, version.groups())) if version else (),
        sockets=max(1, len({_read(path) for path in packages} - {""})),
        has_numactl=shutil.which("numactl", path=environ.get("PATH", "")) is not None,
    )


def is_allocator(library: str) -> bool:
    """Return whether a library, by its path, replaces malloc."""
    lib = library.rpartition("/")[2]
    return lib.startswith(("libjemalloc", "libtcmalloc", "libmimalloc", "libhoard", "libtbbmalloc"))


def _allocators(root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    folders = [Path(f) for f in environ.get("LD_LIBRARY_PATH", "").split(":") if f.startswith("/")]
    folders.append(Path(sys.prefix) / "lib")
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in _FOLDERS:
        folders += [root / folder / arch, root / folder] if arch else [root / folder]
    for name, files in _ALLOCATORS.items():
        paths = (str(folder / file) for file in files for folder in folders)
        # The loader would take a blank or a colon for the end of the path.
        path = next((p for p in paths if not re.search(r"[\s:]", p) and Path(p).is_file()), None)
        if path is not None:
            yield name, path
