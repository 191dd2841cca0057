"""What the launchers share: options in their MPI's words, and the Python of a program."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError, suggestion

#: Per option the flag and this MPI's word for each value that it can have.
OptionWords = Mapping[str, tuple[str, Mapping[str, str]]]

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
#: The interpreter in the first lines of a script, also if pip has put a long path into a
#: line for ``sh``.
_INTERPRETER = re.compile(
    r"""\A\#!\s*(?: /bin/sh\n'''exec'\ | \S*/env\s+)?  "?( (?<=")[^"]+ | \S+ )""", re.VERBOSE
)


class Mpirun:
    """What Open MPI and MPICH have in common."""

    def question(self, program: Path) -> tuple[str, ...]:
        """``mpirun --version``."""
        return (str(program), "--version")

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        """Makes mpi4py (4.1 and later, from a wheel) load the library that belongs to mpirun.

        Left out for a path with a colon, which mpi4py would take for two.
        """
        if info.libmpi is None or os.pathsep in info.libmpi:
            return {}
        return {"MPI4PY_LIBMPI": info.libmpi}


def options_argv(
    words: OptionWords, info: LauncherInfo, options: Mapping[str, Value]
) -> tuple[str, ...]:
    """The flags that bind ranks to cores, or do not; the user's own arguments win over none.

    Raises:
        UsageError: An unknown option or value, one that is set by the user's own arguments as
            well, or an order of ranks that are bound to nothing.
    """
    unknown = [option for option in options if option not in words]
    if unknown:
        raise UsageError(
            f"launcher_option {unknown[0]!r}: {info.kind} knows no such option.",
            suggestion(unknown[0], list(words)),
        )
    return tuple(
        word
        for option, (flag, known) in words.items()
        if option in options
        for word in _one(option, str(options[option]), flag, known, info)
    )


def _one(
    option: str, wanted: str, flag: str, known: Mapping[str, str], info: LauncherInfo
) -> tuple[str, ...]:
    if wanted not in known:
        raise UsageError(
            f"{option}={wanted}: {info.kind} knows {', '.join(known)}", suggestion(wanted, known)
        )
    if not sets_option(info.extra_args, flag.lstrip("-")):
        return (flag, known[wanted])
    if wanted != "none":
        raise UsageError(
            f"{option}={wanted}, but the arguments for mpirun say it too:"
            f" {' '.join(info.extra_args)}",
            f"leave {flag.lstrip('-')} out of --mpirun-arg, or do not tune {option}",
        )
    return ()


def sets_option(args: Sequence[str], *names: str) -> bool:
    """Whether one of the options ``names`` is among ``args``, with one dash or two."""
    words = {word.split("=", 1)[0].lstrip("-") for word in args if word.startswith("-")}
    return not words.isdisjoint(names)


def is_python(program: Path) -> bool:
    """Whether a program is a Python interpreter, by its name."""
    return _PYTHON.fullmatch(program.name) is not None


def interpreter_of(program: Path) -> str | None:
    """The Python that a program is, or runs in by its first line; ``None`` for any other."""
    if is_python(program):
        return str(program)
    try:
        with program.open("rb") as file:
            head = file.read(1024).decode("utf-8", "replace")
    except OSError:
        return None
    found = _INTERPRETER.match(head)
    return found.group(1) if found and is_python(Path(found.group(1))) else None
