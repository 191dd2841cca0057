"""The wall time of the launch, from the start of mpirun to its end."""

from __future__ import annotations

from pathlib import Path

from tuner.launch.objectives.validation import EndedLaunch
from tuner.model import Failed, Finished, ObjectiveSpec, Progress


class Wall:
    """Needs nothing of the program but that it ends."""

    needs_out = False

    def __init__(self, spec: ObjectiveSpec) -> None:
        """Nothing can be asked for: `spec` was checked."""

    def prepare(self, out_dir: Path) -> None:
        """Nothing is read, so nothing can be left over."""

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:  # noqa: ARG002
        """Nothing: the clock says all."""
        return ()

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """How long it took; see `Objective`."""
        return Finished(ended.wall_s, 0)
