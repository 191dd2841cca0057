"""What this host has for the processes started here: CPUs, memory, GPUs, and what knobs need.

It is read from ``/proc``, ``/sys`` and ``/dev``. A file that is missing or foreign is never an
error: the answer then falls back to what Python itself knows. Nothing is started.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.procfs import cgroup_folders
from tuner.model import Machine

#: cgroup v1 says "no limit" with the largest multiple of the page size; anything of this
#: size (4 EiB) is none.
_NO_MEMORY_LIMIT = 2**62

#: A number as the kernel writes it, of at most 64 bits.
_NUMBER = re.compile(r"[0-9]{1,20}")
_CPU_FOLDER = re.compile(r"cpu\d+")
_GPU_DEVICE = re.compile(r"nvidia(\d{1,9})", re.ASCII)

#: File names of the allocators' libraries, the better first.
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
    """The host as the ranks will find it.

    Args:
        root: The tree that holds ``proc``, ``sys`` and ``dev``.
        environ: Where ``CUDA_VISIBLE_DEVICES`` is looked up; ``None`` is the process's own.
        affinity_cpus: CPUs that may be used; ``None`` asks the kernel.
    """
    if affinity_cpus is None:
        affinity_cpus = len(os.sched_getaffinity(0))
    logical = _count_list(_read(root / "sys/devices/system/cpu/online")) or os.cpu_count() or 1
    memory = [_total_memory(root), *_memory_limits(root)]
    return Machine(
        hostname=socket.gethostname(),
        cpu_model=_cpu_model(root),
        logical_cpus=logical,
        physical_cores=_physical_cores(root) or logical,
        affinity_cpus=max(1, affinity_cpus),
        quota_cpus=min(_quotas(root), default=None),
        numa_nodes=_count_list(_read(root / "sys/devices/system/node/online")) or 1,
        memory_bytes=min((limit for limit in memory if limit), default=0),
        gpus=_gpus(root, os.environ if environ is None else environ),
    )


def _read(path: Path) -> str:
    """The text of a small file; empty if it is missing or unreadable.

    Of a long one (``/proc/cpuinfo`` of a large host) only the first page is made and read.
    """
    try:
        with path.open(errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are enough, and cheaper
    except OSError:
        return []


def _count_list(text: str) -> int:
    """How many numbers the kernel's list notation holds: ``0-3,8`` holds five."""
    ranges = re.findall(r"\b(\d{1,6})(?:-(\d{1,6}))?\b", text, re.ASCII)
    return sum(max(0, int(last or first) - int(first) + 1) for first, last in ranges)


# --- CPUs and memory ---------------------------------------------------------------------


def _cpu_model(root: Path) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def _physical_cores(root: Path) -> int:
    """Distinct sets of hardware threads that share a core."""
    folder = root / "sys/devices/system/cpu"
    names = [name for name in _entries(folder) if _CPU_FOLDER.fullmatch(name)]
    siblings = {_read(folder / name / "topology/thread_siblings_list") for name in names}
    return len(siblings - {""})


def _total_memory(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*(\d{1,15}) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


# --- cgroups -----------------------------------------------------------------------------


def _quotas(root: Path) -> Iterator[float]:
    """CPUs' worth of time that each cgroup above this process allows; v1 and v2."""
    limits = [_read(folder / "cpu.max").split() for folder in _cgroups(root)]
    limits += [
        [_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        for folder in _cgroups(root, "cpu")
    ]
    for limit in limits:  # the quota is "max" in v2 and "-1" in v1 if there is none
        if len(limit) == 2 and all(_NUMBER.fullmatch(each) and int(each) for each in limit):
            yield int(limit[0]) / int(limit[1])


def _memory_limits(root: Path) -> Iterator[int]:
    """Bytes that each cgroup above this process allows; v1 and v2."""
    for controller, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        for folder in _cgroups(root, controller):
            text = _read(folder / name)
            if _NUMBER.fullmatch(text) and int(text) < _NO_MEMORY_LIMIT:
                yield int(text)


def _cgroups(root: Path, controller: str = "") -> Iterator[Path]:
    return map(Path, cgroup_folders(controller, root=str(root)))


# --- GPUs --------------------------------------------------------------------------------


def _gpus(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the NVIDIA GPUs that a process started here can open, in bus order.

    A GPU counts where its device file is to be seen (a container is often given only some)
    and ``CUDA_VISIBLE_DEVICES`` does not hide it.
    """
    devices = sorted(
        int(match.group(1))
        for name in _entries(root / "dev")
        if (match := _GPU_DEVICE.fullmatch(name))
    )
    known = dict(_driver_gpus(root))
    order = [minor for minor in known if minor in devices]
    order += [minor for minor in devices if minor not in known]
    found = [known.get(minor, ("NVIDIA GPU", "")) for minor in order]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return tuple(name for name, _ in found) if visible is None else _visible(found, visible)


def _driver_gpus(root: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    """(device minor, (name, UUID)) of each GPU that the driver lists, by bus address."""
    folder = root / "proc/driver/nvidia/gpus"
    for bus in _entries(folder):
        text = _read(folder / bus / "information")
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.MULTILINE))
        minor = fields.get("Device Minor", "")
        if _NUMBER.fullmatch(minor):
            yield int(minor), (fields.get("Model", "NVIDIA GPU"), fields.get("GPU UUID", ""))


def _visible(found: list[tuple[str, str]], visible: str) -> tuple[str, ...]:
    """Apply ``CUDA_VISIBLE_DEVICES``: as CUDA does, nothing after the first bad entry counts."""
    chosen: list[str] = []
    for entry in (part.strip() for part in visible.split(",")):
        if _NUMBER.fullmatch(entry) and int(entry) < len(found):
            chosen.append(found[int(entry)][0])
        elif entry.startswith("MIG-") and found:
            chosen.append("MIG device")
        elif entry.startswith("GPU-") and any(uuid.startswith(entry) for _, uuid in found):
            chosen.append(next(name for name, uuid in found if uuid.startswith(entry)))
        else:
            break
    return tuple(chosen)


# --- what knobs depend on besides cores ----------------------------------------------------


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


def host_features(
    environ: Mapping[str, str], *, root: Path = Path("/"), glibc: str | None = None
) -> HostFeatures:
    """Find them.

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
    for name in _entries(folder):
        if name != "lo" and _read(folder / name / "operstate") != "down":
            yield name


def _sockets(root: Path) -> int:
    ids = {
        _read(path)
        for path in (root / "sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
    }
    return max(1, len(ids - {""}))
