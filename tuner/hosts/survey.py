"""What ``tune doctor`` sees of a host: files, limits, folders, programs, what others do there."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts import interference, lock, process, procfs
from tuner.hosts.machine import this_machine
from tuner.hosts.networks import Network, networks
from tuner.model import Load, Machine
from tuner.model.wording import one_line

#: Each of these says that this is a container.
CONTAINER_FILES = (
    ".dockerenv",
    "run/.containerenv",
    ".singularity.d/runscript",
    "run/secrets/kubernetes.io/serviceaccount/namespace",
)

#: The small files that checks read.
FILES = (
    "proc/self/limits",
    "sys/class/infiniband/*/ports/*/state",
    "sys/devices/system/clocksource/clocksource0/*_clocksource",
    "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/node/node[0-9]*/meminfo",
    "sys/devices/system/node/node[0-9]*/cpulist",
    *CONTAINER_FILES,
)

#: Their values name the interfaces that a library may use.
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")

#: Answers of programs that take longer than this are not waited for, s.
_LIMIT_S = 20.0

_ASK_ADDRESS = "import socket; print(socket.gethostbyname(socket.gethostname()))"


@dataclass(frozen=True)
class Space:
    """The file system of a folder."""

    path: str
    total_bytes: int
    free_bytes: int
    is_writable: bool


@dataclass(frozen=True)
class ProgramOutput:
    """What a short program printed; why it failed, if it did."""

    output: str
    fault: str


@dataclass(frozen=True)
class Survey:
    """What was seen of a host; what could not be seen is empty, ``None`` or missing."""

    machine: Machine
    cpus: tuple[int, ...]  # those that may be used, by number
    networks: tuple[Network, ...]
    address: str  # what the host's own name resolves to
    variables: Mapping[str, str]  # of INTERFACE_VARIABLES
    files: Mapping[str, str]  # of FILES and of cgroups, by path without the root
    folders: Mapping[str, Space]  # by what they are for: shared memory, launches, temporary files
    said: Mapping[str, ProgramOutput]  # by the names of the programs
    load: Load  # what others do
    owner: str  # who measures here
    clock_s: float  # the host's own, since 1970, at the begin of all this

    def file(self, path: str) -> str:
        """The text of a file, without blanks at its ends; empty if it was not seen."""
        return self.files.get(path, "").strip()

    @property
    def is_container(self) -> bool:
        """Whether all this was seen from inside a container."""
        return not self.files.keys().isdisjoint(CONTAINER_FILES)


def survey(
    programs: Mapping[str, tuple[str, ...]],
    folders: Mapping[str, str],
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> Survey:
    """Look at this host: about a second. Nothing is written.

    Args:
        programs: Short commands to run, by name.
        folders: Those whose space counts, by what they are for, beside those that each host has.
        environ: The environment of the programs.
        root: The tree that holds ``proc``, ``sys`` and ``dev``.
    """
    clock_s, owner = time.time(), None
    with suppress(OSError):
        owner = lock.holder(environ)
    folders = {**folders, "temporary files": tempfile.gettempdir()}
    if (shared := root / "dev/shm").is_dir():
        folders["shared memory"] = str(shared)
    address = _run((sys.executable, "-S", "-c", _ASK_ADDRESS), environ)
    return Survey(
        machine=this_machine(root=root, environ=environ),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        networks=networks(),
        address=address.output.strip(),
        variables={name: environ[name] for name in INTERFACE_VARIABLES if environ.get(name)},
        files=dict(_files(root)),
        folders={use: space for use, folder in folders.items() if (space := _space(Path(folder)))},
        said={name: _run(argv, environ) for name, argv in programs.items()},
        load=interference.before(),
        owner="" if owner is None else str(owner),
        clock_s=clock_s,
    )


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> ProgramOutput:
    try:
        done = process.run_tool(argv, timeout_s=_LIMIT_S, env=environ)
    except OSError as error:  # also if it does not end: TimeoutError is one
        return ProgramOutput("", error.strerror or str(error))
    last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    return ProgramOutput(done.stdout, one_line(last[0]) if done.returncode else "")


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """`FILES`, and the limits of processes of each control group."""
    paths = [path for pattern in FILES for path in sorted(root.glob(pattern))]
    for controller in ("", "pids"):
        for folder in procfs.cgroup_folders(controller, root=str(root)):
            paths += [Path(folder, "pids.max"), Path(folder, "pids.current")]
    for path in paths:
        text = procfs.try_read(str(path))
        if text is not None:
            yield str(path.relative_to(root)), text.decode(errors="replace")


def _space(folder: Path) -> Space | None:
    """That of a folder, or of where it would be made; ``None`` if it cannot be asked."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.is_dir())
        status = os.statvfs(there)
    except OSError:
        return None
    free_bytes = status.f_bavail * status.f_frsize
    total_bytes = status.f_blocks * status.f_frsize
    return Space(str(folder), total_bytes, free_bytes, os.access(there, os.W_OK | os.X_OK))
