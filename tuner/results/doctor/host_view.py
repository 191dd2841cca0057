"""What was seen of a host, for the checks: files, limits, programs, folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.config import program
from tuner.hosts import interference, lock, process, procfs
from tuner.hosts.machine import host_features, this_machine
from tuner.launch import launchers
from tuner.launch.launchers.kinds import interpreter_of
from tuner.model import LauncherInfo, Load, Machine, wording
from tuner.model.errors import TunerError
from tuner.store import display_url, resolve_url
from tuner.store.urls import sqlite_path
from tuner.study.outputs import study_folder

#: The program of a study that names none.
SHIPPED = ("{python}", "{workloads}/chainer_mnist.py")

#: The small files that checks read. The last two say that this is a container.
FILES = (
    "proc/self/limits",
    "proc/net/route",
    "sys/class/infiniband/*/ports/*/state",
    "sys/devices/system/clocksource/clocksource0/*_clocksource",
    "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/node/node[0-9]*/meminfo",
    "sys/devices/system/node/node[0-9]*/cpulist",
    ".dockerenv",
    "run/.containerenv",
)

#: What the ranks' Python is asked the version of.
PACKAGES = ("numpy", "chainer", "mpi4py", "torch", "cupy-cuda12x", "cupy-cuda13x")
NCCL = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")

#: Their values name the interfaces that a library may use.
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")

#: Answers of programs that take longer than this are not waited for, s.
_LIMIT_S = 20.0

#: Two lines of JSON: the first stands even if the MPI library ends the process.
_ASK_PYTHON = r"""
import ctypes, json, platform, sys
from importlib import metadata
packages = {}
for name in sys.argv[1:]:
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
try:
    nccl = ctypes.CDLL("libnccl.so.2")._name
except OSError:
    nccl = ""
found = {"version": platform.python_version(), "packages": packages, "nccl": nccl}
print("tune-doctor:", json.dumps(found), flush=True)
if "mpi4py" in packages:
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
    name, version = MPI.get_vendor()
    with open("/proc/self/maps") as maps:
        files = [line.split()[-1] for line in maps if "/libmpi" in line]
    found = {"mpi": name, "mpi_version": ".".join(map(str, version)), "libmpi": (files + [""])[0]}
    print("tune-doctor:", json.dumps(found))
"""
_ASK_ADDRESS = "import socket; print(socket.gethostbyname(socket.gethostname()))"


@dataclass(frozen=True)
class ProgramPython:
    """The interpreter that the ranks run in, as it describes itself."""

    path: str
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)  # versions
    mpi: str = ""  # the library that mpi4py loads: "Open MPI", "MPICH" …
    mpi_version: str = ""
    libmpi: str = ""  # its file
    nccl: str = ""  # the file of the library, if the loader finds one
    fault: str = ""  # the last line of an error


@dataclass(frozen=True)
class Space:
    """The file system of a folder."""

    path: str
    total_bytes: int
    free_bytes: int
    is_writable: bool


@dataclass(frozen=True)
class HostView:
    """What was seen of a host; what could not be seen is empty, ``None`` or missing."""

    machine: Machine
    cpus: tuple[int, ...]  # those that may be used, by number
    interfaces: tuple[str, ...]  # those that are up, without the loopback
    address: str  # what the host's own name resolves to
    variables: Mapping[str, str]  # of INTERFACE_VARIABLES
    files: Mapping[str, str]  # of FILES and of cgroups, by path without the root
    folders: Mapping[str, Space]  # by what they are for: shared memory, launches, temporary files
    has_command: bool  # whether the user named a program
    program: str  # its path
    python: ProgramPython | None  # None: the program is no Python script, or not there
    launcher: LauncherInfo | None
    is_cuda_aware: bool | None  # the launcher's MPI
    storage: str  # the database
    file_system: str  # the kind that it is on
    faults: Mapping[str, tuple[str, str]]  # message and hint, by program, launcher, database
    load: Load  # what others do
    owner: str = ""  # who measures here

    def file(self, path: str) -> str:
        """The text of a file, without blanks at its ends; empty if it was not seen."""
        return self.files.get(path, "").strip()


def look(
    command: Sequence[str] | None = None,
    *,
    storage: str | None = None,
    mpirun: str | None = None,
    kind: str | None = None,
    environ: Mapping[str, str],
    root: Path = Path("/"),
    load: Load | None = None,
) -> HostView:
    """Look at this host: about a second. Nothing is written.

    Args:
        command: The program to tune with its arguments; ``None``: the shipped trainer.
        storage: The database, as ``--storage`` names it.
        mpirun: The option ``--mpirun``.
        kind: The option ``--launcher``.
        environ: The user's environment.
        root: The tree that holds ``proc``, ``sys`` and ``dev``.
        load: What others do; ``None`` looks for half a second.
    """
    search = environ.get("PATH", os.defpath)
    faults: dict[str, tuple[str, str]] = {}
    path, url, file_system, launcher, owner = "", "", "", None, None
    with _keep_error(faults, "program"):
        path = program.check(command or SHIPPED, environ=environ, cwd=Path.cwd())
    with _keep_error(faults, "launcher"):
        first = path or sys.executable
        launcher = launchers.find(mpirun, kind=kind, program=first, environ=environ)
    with _keep_error(faults, "database"):
        from tuner.store import database

        url = resolve_url(storage, environ)
        mounts = root / "proc/self/mountinfo"
        if (file := sqlite_path(url)) is not None:
            file_system = database.file_system(file.resolve(), mounts)
        database.check(url, mounts=mounts)
    with suppress(OSError):
        owner = lock.holder(environ)
    machine = this_machine(root=root, environ=environ)
    folders = {
        "launches": study_folder(None, url, "study").parent if url else Path.cwd(),
        "temporary files": Path(tempfile.gettempdir()),
    }
    if (shared := root / "dev/shm").is_dir():
        folders["shared memory"] = shared
    # Its Python can be asked even if the script is missing.
    first = path or shutil.which(command[0] if command else sys.executable, path=search) or ""
    interpreter = interpreter_of(Path(first)) if first else None
    return HostView(
        machine=machine,
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        interfaces=host_features(environ, root=root).interfaces,
        address=_output(environ, sys.executable, "-S", "-c", _ASK_ADDRESS),
        variables={name: environ[name] for name in INTERFACE_VARIABLES if environ.get(name)},
        files=dict(_files(root)),
        folders={use: space for use, folder in folders.items() if (space := _space(folder))},
        has_command=command is not None,
        program=path,
        python=_ask_python(interpreter, launcher, environ) if interpreter else None,
        launcher=launcher,
        is_cuda_aware=_is_cuda_aware(launcher, environ) if machine.gpus and launcher else None,
        storage=display_url(url) if url else "",
        file_system=file_system,
        faults=faults,
        load=interference.before() if load is None else load,
        owner="" if owner is None else str(owner),
    )


@contextmanager
def _keep_error(faults: dict[str, tuple[str, str]], what: str) -> Iterator[None]:
    """Keep the error that a study would end with."""
    try:
        yield
    except TunerError as error:
        faults[what] = error.message, error.hint
    except OSError as error:  # a folder on the way that is not ours to enter
        faults[what] = f"{error.strerror}: {error.filename}", "name another place"


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """`FILES`, and the limits of processes of each control group."""
    found = [path for pattern in FILES for path in sorted(root.glob(pattern))]
    for controller in ("", "pids"):
        for folder in procfs.cgroup_folders(controller, root=str(root)):
            found += [Path(folder, "pids.max"), Path(folder, "pids.current")]
    for path in found:
        text = procfs.try_read(str(path))
        if text is not None:
            yield str(path.relative_to(root)), text.decode(errors="replace")


def _space(folder: Path) -> Space | None:
    """That of a folder, or of where it would be made; ``None`` if it cannot be asked."""
    try:
        there = next(each for each in (folder, *folder.parents) if each.is_dir())
        status = os.statvfs(there)
    except OSError:
        return None
    free_bytes = status.f_bavail * status.f_frsize
    total_bytes = status.f_blocks * status.f_frsize
    return Space(str(folder), total_bytes, free_bytes, os.access(there, os.W_OK | os.X_OK))


def _output(environ: Mapping[str, str], *argv: str) -> str:
    """What a short command prints; empty if it fails."""
    try:
        done = process.run_tool(argv, timeout_s=_LIMIT_S, env=environ)
    except OSError:  # also if it does not end: TimeoutError is one
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _is_cuda_aware(info: LauncherInfo, environ: Mapping[str, str]) -> bool | None:
    """Whether Open MPI was built for CUDA; ``None`` for another MPI, and if it does not say."""
    tool = str(Path(info.mpirun).with_name("ompi_info"))
    output = _output(environ, tool, "--parsable", "--param", "mpi", "all", "--level", "9")
    found = re.search(r"mpi_built_with_cuda_support:value:(\w+)", output)
    return found[1] == "true" if found else None


def _ask_python(
    interpreter: str, info: LauncherInfo | None, environ: Mapping[str, str]
) -> ProgramPython:
    """Ask the ranks' interpreter, in the environment of a launch, what it is and loads."""
    python = ProgramPython(
        shutil.which(interpreter, path=environ.get("PATH", os.defpath)) or interpreter
    )
    env = {**environ, **(launchers.launcher_for(info.kind).environment(info) if info else {})}
    try:
        argv = (python.path, "-c", _ASK_PYTHON, *PACKAGES, *NCCL)
        done = process.run_tool(argv, timeout_s=_LIMIT_S, env=env)
    except OSError as error:
        return replace(python, fault=error.strerror or str(error))
    for line in done.stdout.splitlines():
        mark, _, found = line.partition(" ")  # MPI libraries print, too
        if mark == "tune-doctor:":
            python = replace(python, **json.loads(found))
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        python = replace(python, fault=wording.one_line(last[0]))
    return python
