"""What a launcher is, and those that are installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from tuner.errors import UsageError
from tuner.model import LauncherInfo, Value

GROUP = "tuner.launchers"

_SHIPPED = {
    "openmpi": "tuner.launchers.openmpi:OpenMPI",
    "mpich": "tuner.launchers.mpich:MPICH",
}


class Launcher(Protocol):
    """What one MPI wants to hear."""

    kind: str

    def version(self, text: str) -> str | None:
        """The version in what ``mpirun --version`` printed; ``None`` for another MPI."""

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
        """The whole command. ``options``: ``{"bind_to": "none" | "core" | "socket" | "numa"}``.

        Raises:
            UsageError: An option or a value of one that this MPI does not have. Every value
                of a study is tried before its first launch.
        """

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        """What mpirun's environment must hold besides the user's own."""


def launchers() -> Iterator[Launcher]:
    """Every launcher, the shipped ones first."""
    for entry in _entries():
        launcher: Launcher = entry.load()()
        yield launcher


def launcher_for(info: LauncherInfo) -> Launcher:
    """The launcher for a kind of MPI.

    Raises:
        UsageError: The package that brought this kind is not installed here.
    """
    for entry in _entries():
        if entry.name == info.kind:
            launcher: Launcher = entry.load()()
            return launcher
    raise UsageError(
        f"no launcher of the kind {info.kind!r} is installed",
        f"install the package that has it as an entry point of the group {GROUP}",
    )


def _entries() -> Iterator[EntryPoint]:
    for name, value in _SHIPPED.items():
        yield EntryPoint(name=name, value=value, group=GROUP)
    yield from entry_points(group=GROUP)
