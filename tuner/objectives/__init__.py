"""How a launch's figure of merit is read: one module an objective.

An objective reads files below the trial's ``{out}`` folder and nothing else; other packages add
theirs through the entry point group ``tuner.objectives`` (name -> a callable that takes the
`ObjectiveSpec`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol

from tuner.errors import UsageError
from tuner.model import Failed, Finished, ObjectiveSpec, Progress
from tuner.objectives.logreport import LogReport

#: The entry point group of objectives from other packages.
GROUP = "tuner.objectives"


class Objective(Protocol):
    """Reads the log of one launch; one object serves one launch."""

    def prepare(self, out_dir: Path) -> None:
        """Remove what an earlier launch left in `out_dir`.

        Raises:
            UsageError: An old log cannot be removed.
        """

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:
        """What the program has logged so far; empty while there is nothing. Never raises."""

    def result(self, out_dir: Path) -> Finished | Failed:
        """The value of a launch that has ended by itself, or why its log gives none."""


SHIPPED: dict[str, Callable[[ObjectiveSpec], Objective]] = {"logreport": LogReport}


def objective_for(spec: ObjectiveSpec) -> Objective:
    """The objective that `spec` names.

    Raises:
        UsageError: No such objective, or a file name that leads out of the output folder.
    """
    path = PurePosixPath(spec.filename)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in spec.filename:
        raise UsageError(
            f"The log {spec.filename!r} is no name of a file below the output folder.",
            "Give it as the program writes it below {out}: --log log.jsonl.",
        )
    make = SHIPPED.get(spec.kind) or _from_entry_points(spec.kind)
    if make is None:
        raise UsageError(
            f"unknown objective {spec.kind!r}", f"known here: {', '.join(sorted(SHIPPED))}"
        )
    return make(spec)


def _from_entry_points(kind: str) -> Callable[[ObjectiveSpec], Objective] | None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=kind):
        make: Callable[[ObjectiveSpec], Objective] = entry.load()
        return make
    return None
