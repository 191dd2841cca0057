"""A surface: every point of a small space with several runs of each."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.model import Setting, Value

#: What a run's numbers are, s, unless the file has them in another order.
RUN_COLUMNS = ("startup_s", "first_iteration_s", "elapsed_s")

#: One value a knob, in the surface's order.
Key = tuple[Value, ...]


@dataclass(frozen=True)
class Run:
    """One recorded launch: its start-up, then what its log said."""

    startup_s: float
    first_iteration_s: float  # within elapsed_s
    elapsed_s: float


@dataclass(frozen=True)
class Point:
    """The runs of one setting, or after how long it fails, and why."""

    runs: tuple[Run, ...]
    truth_s: float | None  # the median elapsed time; None where it fails
    fail_after_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Surface:
    """A recorded job, or a model of one."""

    name: str
    model: bool
    ranks: int
    cores: int
    iterations: int
    knobs: Mapping[str, tuple[Value, ...]]
    default: Key
    points: Mapping[Key, Point]
    cold: frozenset[str] = frozenset()  # knobs that do not change in a running job

    def setting(self, key: Key) -> Setting:
        """A point as a setting."""
        return Setting.of(zip(self.knobs, key, strict=True))

    def key(self, setting: Setting) -> Key:
        """The inverse; what a setting leaves out has its default."""
        values = setting.as_dict()
        pairs = zip(self.knobs, self.default, strict=True)
        return tuple(values.get(name, default) for name, default in pairs)

    @property
    def best(self) -> Key:
        """The point with the lowest truth."""
        return min(self.points, key=lambda key: self.points[key].truth_s or math.inf)

    @property
    def unit_s(self) -> float:
        """The best point's median launch: what costs are counted in."""
        return statistics.median(r.startup_s + r.elapsed_s for r in self.points[self.best].runs)

    def truth_s(self, setting: Setting | None) -> float | None:
        """The median elapsed time of a setting; ``None`` where it fails, or there is none."""
        return None if setting is None else self.points[self.key(setting)].truth_s

    def regret(self, setting: Setting | None) -> float:
        """The truth of a setting over the best truth, minus 1; infinite where it fails."""
        truth_s = self.truth_s(setting)
        best_s = self.points[self.best].truth_s
        return math.inf if truth_s is None or best_s is None else truth_s / best_s - 1


def load(path: Path) -> Surface:
    """Read the file of a surface (``benchmarks/surfaces/README.md``)."""
    return of_document(json.loads(path.read_text()))


def of_document(document: Mapping[str, Any]) -> Surface:
    """Make the surface that a file holds.

    Raises:
        KeyError: The document is no surface.
    """
    knobs = {name: tuple(values) for name, values in document["knobs"].items()}
    columns = document.get("run_columns", RUN_COLUMNS)
    points = {
        tuple(point["setting"][name] for name in knobs): _point(point, columns)
        for point in document["points"]
    }
    return Surface(
        name=document["name"],
        model=document.get("model", False),
        ranks=document["ranks"],
        cores=document["machine"]["physical_cores"],
        iterations=document["iterations"],
        knobs=knobs,
        default=tuple(document["default"][name] for name in knobs),
        points=points,
        cold=frozenset(document.get("cold", ())),
    )


def _point(point: Mapping[str, Any], columns: Sequence[str]) -> Point:
    if point.get("failed"):
        return Point((), None, point["fail_after_s"], point.get("reason") or "")
    runs = tuple(Run(**dict(zip(columns, row, strict=True))) for row in point["runs"])
    return Point(runs, point.get("truth_s") or statistics.median(run.elapsed_s for run in runs))
