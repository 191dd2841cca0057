"""What a launcher is, and those that are installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tuner.model import LauncherInfo, Value, plugins

GROUP = "tuner.launchers"

_SHIPPED = {
    "openmpi": "tuner.launch.launchers.openmpi:OpenMPI",
    "mpich": "tuner.launch.launchers.mpich:MPICH",
    "torchrun": "tuner.launch.launchers.torchrun:Torchrun",
}


class Launcher(Protocol):
    """One way to start ranks: how it is found, and its options."""

    kind: str
    #: The names of the program that starts its ranks, best first, without a version behind them.
    programs: tuple[str, ...]

    def question(self, program: Path) -> tuple[str, ...]:
        """The command that says which version ``program`` is; empty if that is not known."""

    def version(self, text: str) -> str | None:
        """The version in what the question's command printed; ``None`` for another MPI."""

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Arguments that keep what the user's environment chose over our own flags."""

    def mpi_file_names(self) -> tuple[str, ...]:
        """File name patterns of the MPI library, best first."""

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
            UsageError: An option or a value of one that this MPI does not have. Every value
                of a study is tried before its first launch.
        """

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        """What mpirun's environment must hold besides the user's own."""


def launchers() -> Iterator[Launcher]:
    """Every launcher, the shipped ones first.

    Raises:
        UsageError: A package that brought one is broken.
    """
    for entry in plugins.entries(GROUP, _SHIPPED):
        launcher: Launcher = plugins.load(entry)()
        yield launcher


def launcher_for(info: LauncherInfo) -> Launcher:
    """The launcher for a kind of MPI.

    Raises:
        UsageError: The package that brought this kind is not installed here, or is broken.
    """
    return launcher_of(info.kind)


def launcher_of(kind: str) -> Launcher:
    """The launcher called ``kind``.

    Raises:
        UsageError: There is none of this name, or its package is broken.
    """
    launcher: Launcher = plugins.find(GROUP, _SHIPPED, kind, what="kind of launcher")()
    return launcher
