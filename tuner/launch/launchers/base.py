"""What a launcher is, and those that are installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tuner.model import LauncherInfo, Value, plugins
from tuner.model.wording import one_line

GROUP = "tuner.launchers"

_SHIPPED = {
    "openmpi": "tuner.launch.launchers.mpirun:OpenMPI",
    "mpich": "tuner.launch.launchers.mpirun:MPICH",
    "torchrun": "tuner.launch.launchers.torchrun:Torchrun",
}


class Launcher:
    """One way to start ranks: how it is found, and its options."""

    kind: str
    #: The names of the program that starts its ranks, best first, without a version behind them.
    programs: tuple[str, ...]
    #: Regular expressions with a group for the version in what :meth:`question` prints.
    versions: tuple[str, ...]
    #: File name patterns of its MPI library, best first.
    mpi_files: tuple[str, ...] = ()

    def question(self, program: Path) -> tuple[str, ...]:
        """The command that says which version ``program`` is; empty if that is not known."""
        return (str(program), "--version")

    def version(self, text: str) -> str | None:
        """The version in what the question's command printed; ``None`` for another launcher."""
        matches = (re.search(pattern, text) for pattern in self.versions)
        return next((one_line(found[1], 60) for found in matches if found), None)

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:  # noqa: ARG002
        """Arguments that keep what the user's environment chose over our own flags."""
        return ()

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command.

        ``options``: ``{"bind_to": "none" | "core" | "socket" | "numa"}``, and, if ranks are
        bound, perhaps ``"map_by": "slot" | "socket" | "numa"``.

        Raises:
            UsageError: An option, or a value of one, that this launcher does not have, or that the
                user's own arguments set. Every value of a study is tried before its first launch.
        """
        raise NotImplementedError

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        """What the launcher's environment must hold besides the user's own.

        mpi4py (4.1 and later, from a wheel) is to load the library that belongs to mpirun. A path
        with a colon is left out: mpi4py would take it for two.
        """
        if info.libmpi is None or os.pathsep in info.libmpi:
            return {}
        return {"MPI4PY_LIBMPI": info.libmpi}


def sets_option(args: Sequence[str], *names: str) -> bool:
    """Whether one of the options ``names`` is among ``args``, with one dash or two."""
    words = {word.split("=", 1)[0].lstrip("-") for word in args if word.startswith("-")}
    return not words.isdisjoint(names)


def launchers() -> Iterator[Launcher]:
    """Every launcher, the shipped ones first.

    Raises:
        UsageError: A package that brought one is broken.
    """
    for entry in plugins.entries(GROUP, _SHIPPED):
        launcher: Launcher = plugins.load(entry)()
        yield launcher


def launcher_for(kind: str) -> Launcher:
    """The launcher of a kind.

    Raises:
        UsageError: There is none of this name, or its package is broken.
    """
    launcher: Launcher = plugins.find(GROUP, _SHIPPED, kind, what="kind of launcher")()
    return launcher


def wrapper_argv() -> tuple[str, ...]:
    """The words that start ``task_wrapper.sh``, whether or not the file kept its x bit."""
    spec = find_spec("tuner.wrappers")
    assert spec is not None and spec.origin is not None  # it is part of this package
    return ("/bin/sh", str(Path(spec.origin).parent / "task_wrapper.sh"))
