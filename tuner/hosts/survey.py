"""What ``tune doctor`` sees of a host: files, limits, folders, programs, what others do there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts import interference, lock, process
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

#: Answers of programs that take longer than this are not waited for, s.
_LIMIT_S = 20.0

_ASK_ADDRESS = "import socket; print(socket.gethostbyname(socket.gethostname()))"


@dataclass(frozen=True)
class FolderSpace:
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
    is_container: bool  # all this was seen from inside one
    folders: Mapping[str, FolderSpace]  # by what they are for: shared memory, launches, …
    said: Mapping[str, ProgramOutput]  # by the names of the programs
    load: Load  # what others do
    owner: str  # who measures here


def survey(
    programs: Mapping[str, tuple[str, ...]],
    folders: Mapping[str, str],
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> Survey:
    """Look at this host, in about a second. Nothing is written.

    ``programs`` are short commands to run, by name; ``folders`` those whose space counts, by what
    they are for, beside those that each host has; ``root`` holds ``proc``, ``sys`` and ``dev``.
    """
    owner = None
    with suppress(OSError):
        owner = lock.holder(environ)
    folders = {**folders, "temporary files": tempfile.gettempdir()}
    if (shared := root / "dev/shm").is_dir():
        folders["shared memory"] = str(shared)
    return Survey(
        machine=this_machine(root=root, environ=environ),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        networks=networks(),
        address=_run((sys.executable, "-S", "-c", _ASK_ADDRESS), environ).output.strip(),
        is_container=any(any(root.glob(file)) for file in CONTAINER_FILES),
        folders={use: space for use, folder in folders.items() if (space := _space(Path(folder)))},
        said={name: _run(argv, environ) for name, argv in programs.items()},
        load=interference.load_now(),
        owner="" if owner is None else str(owner),
    )


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> ProgramOutput:
    try:
        done = process.run_tool(argv, timeout_s=_LIMIT_S, env=environ)
    except OSError as error:  # also if it does not end: TimeoutError is one
        return ProgramOutput("", error.strerror or str(error))
    last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    return ProgramOutput(done.stdout, one_line(last[0]) if done.returncode else "")


def _space(folder: Path) -> FolderSpace | None:
    """Return the space of a folder, or of where it would be made; ``None`` if that is unknown."""
    try:
        place = next(path for path in (folder, *folder.parents) if path.is_dir())
        status = os.statvfs(place)
    except OSError:
        return None
    free_bytes = status.f_bavail * status.f_frsize
    total_bytes = status.f_blocks * status.f_frsize
    return FolderSpace(str(folder), total_bytes, free_bytes, os.access(place, os.W_OK | os.X_OK))
