"""How a launch's figure of merit is read: one module an objective.

An objective reads what a launch left behind (`EndedLaunch`) and nothing else; other packages add
theirs through the entry point group ``tuner.objectives`` (name -> a callable that takes the
`ObjectiveSpec`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tuner.launch.objectives.validation import EndedLaunch, check, with_argument
from tuner.model import Failed, Finished, ObjectiveSpec, Progress, plugins

__all__ = ["GROUP", "EndedLaunch", "Objective", "objective_for", "with_argument"]

#: The entry point group of objectives from other packages.
GROUP = "tuner.objectives"


class Objective(Protocol):
    """Reads the figure of one launch; one object serves one launch.

    ``needs_out`` says that the command must have ``{out}``: the figure is read from there.
    """

    needs_out: bool

    def prepare(self, out_dir: Path) -> None:
        """Remove what an earlier launch left in `out_dir`.

        Raises:
            UsageError: An old log cannot be removed.
        """

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:
        """What the program has logged so far; empty while there is nothing. Never raises."""

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """The value of a launch that has ended by itself, or why nothing gives one."""


_SHIPPED = {
    "logreport": "tuner.launch.objectives.logreport:LogReport",
    "pattern": "tuner.launch.objectives.pattern:Pattern",
    "wall": "tuner.launch.objectives.wall:Wall",
}


def objective_for(spec: ObjectiveSpec) -> Objective:
    """The objective that `spec` names.

    Raises:
        UsageError: No such objective, one whose package is broken, or options that it cannot
            have, alone or together.
    """
    make: Callable[[ObjectiveSpec], Objective] = plugins.find(
        GROUP, _SHIPPED, spec.kind, what="objective"
    )
    check(spec)
    return make(spec)
