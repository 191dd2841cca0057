"""How a launch's figure of merit is read: one module an objective.

An objective reads files below the trial's ``{out}`` folder and nothing else; other packages add
theirs through the entry point group ``tuner.objectives`` (name -> a callable that takes the
`ObjectiveSpec`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Protocol

from tuner import plugins
from tuner.errors import UsageError
from tuner.model import Failed, Finished, ObjectiveSpec, Progress

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


_SHIPPED = {"logreport": "tuner.objectives.logreport:LogReport"}


def objective_for(spec: ObjectiveSpec) -> Objective:
    """The objective that `spec` names.

    Raises:
        UsageError: No such objective, one whose package is broken, or a file name that leads
            out of the output folder.
    """
    path = PurePosixPath(spec.filename)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in spec.filename:
        raise UsageError(
            f"The log {spec.filename!r} is no name of a file below the output folder.",
            "Give it as the program writes it below {out}: --log log.jsonl.",
        )
    make: Callable[[ObjectiveSpec], Objective] = plugins.find(
        GROUP, _SHIPPED, spec.kind, what="objective"
    )
    return make(spec)
