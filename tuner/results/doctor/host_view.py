"""What was seen of a host, for the checks: its survey, and what that says of a study there."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.config import program
from tuner.hosts import stacks
from tuner.hosts.survey import Survey, survey
from tuner.hosts.untrusted_files import read_untrusted
from tuner.launch import command as templates
from tuner.launch import launchers
from tuner.launch.launchers.kinds import interpreter_of
from tuner.model import LauncherInfo
from tuner.model.errors import TunerError
from tuner.store import display_url, resolve_url
from tuner.store.urls import sqlite_path
from tuner.study.outputs import study_folder

#: So much of a script is read, bytes.
MOST_SCRIPT = 1 << 20

#: The program of a study that names none.
SHIPPED = ("{python}", "{workloads}/chainer_mnist.py")

#: What the ranks' Python is asked the version of.
PACKAGES = ("numpy", "chainer", "mpi4py", "torch", "cupy-cuda12x", "cupy-cuda13x")
NCCL = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")

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
facts = {"version": platform.python_version(), "packages": packages, "nccl": nccl}
print("tune-doctor:", json.dumps(facts), flush=True)
if "mpi4py" in packages:
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
    name, version = MPI.get_vendor()
    with open("/proc/self/maps") as maps:
        files = [line.split()[-1] for line in maps if "/libmpi" in line]
    facts = {"mpi": name, "mpi_version": ".".join(map(str, version)), "libmpi": (files + [""])[0]}
    print("tune-doctor:", json.dumps(facts))
"""


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
class HostView(Survey):
    """What the checks read of a host; what could not be seen is empty, ``None`` or missing."""

    programs: Mapping[str, tuple[str, ...]]  # what each host is asked
    has_command: bool  # whether the user named a program
    names_chainer: bool  # whether the script of that program does
    program: str  # its path
    python: ProgramPython | None  # None: the program is no Python script, or not there
    launcher: LauncherInfo | None
    storage: str  # the database
    file_system: str  # the kind that it is on
    faults: Mapping[str, tuple[str, str]]  # message and hint, by program, launcher, database
    ahead_s: float = 0.0  # its clock, of this host's


def look(
    command: Sequence[str] | None = None,
    *,
    storage: str | None = None,
    mpirun: str | None = None,
    kind: str | None = None,
    environ: Mapping[str, str],
    root: Path = Path("/"),
) -> HostView:
    """Look at this host: about a second. Nothing is written.

    Args:
        command: The program to tune with its arguments; ``None``: the shipped trainer.
        storage: The database, as ``--storage`` names it.
        mpirun: The option ``--mpirun``.
        kind: The option ``--launcher``.
        environ: The user's environment.
        root: The tree that holds ``proc``, ``sys`` and ``dev``.
    """
    search = environ.get("PATH", os.defpath)
    faults: dict[str, tuple[str, str]] = {}
    path, url, file_system, launcher = "", "", "", None
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
    # Its Python can be asked even if the script is missing.
    first = path or shutil.which(command[0] if command else sys.executable, path=search) or ""
    interpreter = interpreter_of(Path(first)) if first else None
    if interpreter is not None:
        interpreter = shutil.which(interpreter, path=search) or interpreter
    programs = _programs(command or SHIPPED, path, interpreter, launcher)
    folder = study_folder(None, url, "study").parent if url else Path.cwd()
    own_survey = survey(programs, {"launches": str(folder)}, environ=environ, root=root)
    return HostView(
        **vars(own_survey),
        programs=programs,
        has_command=command is not None,
        names_chainer=command is not None and _names_chainer(command),
        program=path,
        python=_python_of(interpreter, own_survey) if interpreter else None,
        launcher=launcher,
        storage=display_url(url) if url else "",
        file_system=file_system,
        faults=faults,
    )


def view_of(survey: Survey, here: HostView, asked_s: float) -> HostView:
    """Another host, for the same study; it was asked at ``asked_s`` by this host's clock."""
    faults = dict(here.faults)
    for what in {"program", "launcher"} & survey.said.keys():
        if (said := survey.said[what]) != here.said[what]:
            first = (said.fault or said.output.strip()).splitlines()[:1]
            faults[what] = f"not as here: {''.join(first)}", "install the same, at the same path"
    return replace(
        here,
        **vars(survey),
        python=here.python and _python_of(here.python.path, survey),
        launcher=None if "launcher" in faults else here.launcher,
        faults=faults,
        ahead_s=survey.clock_s - asked_s,
    )


def _programs(
    command: Sequence[str], path: str, interpreter: str | None, info: LauncherInfo | None
) -> dict[str, tuple[str, ...]]:
    """What each host is asked to run, by name."""
    questions: dict[str, tuple[str, ...]] = {}
    if py_spy := stacks.find_py_spy():
        look = 'exec "$0" dump --nonblocking --pid $PPID >/dev/null'  # at what has started it
        questions["stacks"] = ("sh", "-c", look, py_spy)
    if path:
        shipped = str(templates.shipped_dir("workloads"))
        script = (program.script_of(command) or path).replace("{workloads}", shipped)
        questions["program"] = ("ls", path, path if "{" in script else str(Path(script).absolute()))
    if info is not None:
        mpirun = Path(info.mpirun)
        questions["launcher"] = launchers.launcher_for(info.kind).question(mpirun)
        tool = str(mpirun.with_name("ompi_info"))
        questions["cuda"] = (tool, "--parsable", "--param", "mpi", "all", "--level", "9")
    if interpreter is not None:
        # In the environment of a launch.
        more = launchers.launcher_for(info.kind).environment(info) if info else {}
        variables = [f"{name}={value}" for name, value in more.items()]
        questions["python"] = ("env", *variables, interpreter, "-c", _ASK_PYTHON, *PACKAGES, *NCCL)
    return questions


def _names_chainer(command: Sequence[str]) -> bool:
    """Whether the program's own script imports Chainer or ChainerMN, as far as it can be read."""
    with suppress(OSError):
        script = program.script_of(command)
        return script is not None and b"chainer" in read_untrusted(Path(script), MOST_SCRIPT)
    return False


@contextmanager
def _keep_error(faults: dict[str, tuple[str, str]], what: str) -> Iterator[None]:
    """Keep the error that a study would end with."""
    try:
        yield
    except TunerError as error:
        faults[what] = error.message, error.hint
    except OSError as error:  # a folder on the way that is not ours to enter
        faults[what] = f"{error.strerror}: {error.filename}", "name another place"


def _python_of(path: str, survey: Survey) -> ProgramPython:
    """What the ranks' interpreter has said of itself and what it loads."""
    python, said = ProgramPython(path), survey.said["python"]
    for line in said.output.splitlines():
        mark, _, answer = line.partition(" ")  # MPI libraries print, too
        if mark == "tune-doctor:":
            python = replace(python, **json.loads(answer))
    return replace(python, fault=said.fault)
