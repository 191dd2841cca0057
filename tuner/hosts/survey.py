"""Looks at a host for ``tune doctor``: its CPUs, networks, folders, programs, and who uses it."""

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

#: A host that has one of these files is a container.
CONTAINER_FILES = (
    ".dockerenv",
    "run/.containerenv",
    ".singularity.d/runscript",
    "run/secrets/kubernetes.io/serviceaccount/namespace",
)

#: A program that takes longer than this is ended, s.
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
    """What a look at a host shows; what could not be read is empty, ``None`` or missing."""

    machine: Machine
    cpus: tuple[int, ...]  # those that may be used, by number
    networks: tuple[Network, ...]
    address: str  # what the host's own name resolves to
    is_container: bool  # the look was taken from inside a container
    folders: Mapping[str, FolderSpace]  # by what they are for: shared memory, launches, …
    said: Mapping[str, ProgramOutput]  # by the names of the programs
    load: Load  # what other processes do
    owner: str  # the process that measures here; empty: none


def survey(
    programs: Mapping[str, tuple[str, ...]],
    folders: Mapping[str, str],
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> Survey:
    """Look at this host, in about a second. Nothing is written.

    ``programs`` are short commands to run, by name. The space of ``folders``, by what they are for,
    is read, with that of folders which each host has. ``root`` holds ``proc``, ``sys`` and ``dev``.
    """
    owner = None
    with suppress(OSError):
        owner = lock.holder(environ)
    folders = {**folders, "temporary files": tempfile.gettempdir()}
    if (shared_memory := root / "dev/shm").is_dir():
        folders["shared memory"] = str(shared_memory)
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
        result = process.run_tool(argv, timeout_s=_LIMIT_S, env=environ)
    except OSError as error:  # also a TimeoutError, if the program does not end
        return ProgramOutput(output="", fault=error.strerror or str(error))
    errors = result.stderr.strip().splitlines() or [f"it ended with {result.returncode}"]
    return ProgramOutput(result.stdout, one_line(errors[-1]) if result.returncode else "")


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
