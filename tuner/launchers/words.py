"""What the launchers have in common when they put options into their MPI's words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.errors import UsageError, suggestion
from tuner.model import LauncherInfo, Value


def version_question(program: Path) -> tuple[str, ...]:
    """How an mpirun is asked which it is."""
    return (str(program), "--version")


def binding(
    flag: str, words: Mapping[str, str], info: LauncherInfo, options: Mapping[str, Value]
) -> tuple[str, ...]:
    """The flag that binds ranks to cores, or does not; the user's own arguments win over none.

    Raises:
        UsageError: An option besides ``bind_to``, an unknown value of it, or it is set by the
            user's own arguments as well.
    """
    for option in options:
        if option != "bind_to":
            raise UsageError(
                f"launcher_option {option!r}: {info.kind} knows no such option.",
                suggestion(option, ["bind_to"]),
            )
    wanted = str(options.get("bind_to", "none"))
    if wanted not in words:
        raise UsageError(
            f"bind_to={wanted}: {info.kind} knows {', '.join(words)}", suggestion(wanted, words)
        )
    if not sets_option(info.extra_args, "bind-to"):
        return (flag, words[wanted])
    if wanted != "none":
        raise UsageError(
            f"bind_to={wanted}, but the arguments for mpirun bind too: {' '.join(info.extra_args)}",
            "leave the binding out of --mpirun-arg, or do not tune bind_to",
        )
    return ()


def mpi4py_environment(info: LauncherInfo) -> dict[str, str]:
    """Makes mpi4py (4.1 and later, from a wheel) load the library that belongs to mpirun.

    Left out for a path with a colon, which mpi4py would take for two.
    """
    if info.libmpi is None or os.pathsep in info.libmpi:
        return {}
    return {"MPI4PY_LIBMPI": info.libmpi}


def sets_option(args: Sequence[str], *names: str) -> bool:
    """Whether one of the options ``names`` is among ``args``, with one dash or two."""
    words = {word.split("=", 1)[0].lstrip("-") for word in args if word.startswith("-")}
    return not words.isdisjoint(names)
