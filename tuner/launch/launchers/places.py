"""Where an mpirun is looked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tuner.model.errors import UsageError

#: Names the mpirun to take, where no option does.
VARIABLE = "TUNE_MPIRUN"


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


def found(names: Sequence[str], program: str | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """Programs of these names: beside ``program``, beside our own interpreter, on ``PATH``.

    Where ``program`` itself is called so (``python3.12`` is a ``python``), it alone is meant:
    torchrun needs the torch of the ranks.
    """
    search = environ.get("PATH", os.defpath)
    beside = [sys.executable]
    if program and (resolved := shutil.which(program, path=search)):
        beside.insert(0, resolved)
        if Path(resolved).name.rstrip("0123456789.") in names:
            yield _absolute(resolved)
            return
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
