"""The launches of a study as the figures look at them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.model import (
    BASELINE,
    Failed,
    Finished,
    LaunchRecord,
    Measurement,
    ObjectiveSpec,
    Purpose,
    Setting,
    Stopped,
    figures,
    wording,
)
from tuner.model.outcome import PACE
from tuner.results.explain.explained_runs import median_run
from tuner.results.report.plots import style
from tuner.results.study_view import StudyView
from tuner.stats import estimates
from tuner.stats.wilcoxon import interval

#: The chance, at most, that an interval misses the centre.
ERROR = 0.05


@dataclass(frozen=True)
class DrawnRun:
    """A launch: ``cost`` where it came to its end, ``stopped`` or ``failure`` where it did not.

    ``job`` is the number of the running job that it was a window of, ``None``: of none.
    """

    number: int
    purpose: Purpose
    setting: Setting  # the one form of all that come to the same
    is_default: bool = False
    cost: float | None = None
    stopped: Stopped | None = None
    failure: Failed | None = None
    job: int | None = None

    @property
    def made_for(self) -> str:
        """``search``, ``search, in job 3``."""
        return str(self.purpose) if self.job is None else f"{self.purpose}, in job {self.job}"

    @property
    def known_cost(self) -> float | None:
        """The cost, or what it came to for certain if it was stopped; ``None``: nothing is."""
        if self.stopped is None or self.is_projected:
            return self.going
        return self.stopped.bound_s or None

    @property
    def is_projected(self) -> bool:
        """True if its pace says more than when it was stopped: in a window, or side by side."""
        if self.stopped is None or self.is_bound:
            return False
        return self.job is not None or self.stopped.rule == PACE

    @property
    def is_bound(self) -> bool:
        """True if all that is known is that it takes at least this long."""
        return self.stopped is not None and not self.stopped.is_forecast

    @property
    def going(self) -> float | None:
        """The cost, or where it was going; of what is only known to be slower, its bound."""
        if self.stopped is None:
            return self.cost
        return self.stopped.bound_s or None if self.is_bound else self.stopped.projection_s


@dataclass(frozen=True)
class Side:
    """One side of the comparison: its name, its setting, its runs, and the colour it has."""

    name: str
    setting: Setting
    runs: tuple[DrawnRun, ...]
    colour: str

    @property
    def costs(self) -> tuple[list[float], str]:
        """What its runs came to, and a mark: ``~`` if none has ended, and their pace tells it."""
        costs = [run.cost for run in self.runs if run.cost is not None]
        if costs:
            return costs, ""
        return [run.known_cost for run in self.runs if run.is_projected and run.known_cost], "~"


@dataclass(frozen=True)
class Centre:
    """The median cost of some runs, and an interval of it: ``how`` says what the interval is."""

    median: float
    low: float
    high: float
    how: str  # empty with one run


def run(data: StudyView, record: LaunchRecord) -> DrawnRun:
    """A launch; what it was is in ``purpose``, and nothing is left out here."""
    ending, setting = record.outcome.ending, data.pooling.canonical(record.setting)
    default = BASELINE if data.result.baseline is None else data.result.baseline.setting
    return DrawnRun(
        record.number,
        record.purpose,
        setting,
        setting == default,
        ending.elapsed_s if isinstance(ending, Finished) else None,
        ending if isinstance(ending, Stopped) else None,
        ending if isinstance(ending, Failed) else None,
        None if record.outcome.window is None else record.outcome.window.job,
    )


def counted(data: StudyView) -> list[DrawnRun]:
    """The launches that say something of their setting, in their order."""
    return [run(data, record) for record in estimates.counted(data.records)]


def best(data: StudyView) -> Setting | None:
    """What was found to be the fastest; ``None`` if nothing was measured."""
    candidate = data.result.candidate
    return None if candidate is None or candidate.elapsed_s is None else candidate.setting


def sides(data: StudyView) -> list[Side]:
    """Your defaults, the first guess that worked if they fail, and the best: those there are."""
    result = data.result
    named: dict[Setting, str] = {}
    if result.baseline is not None:
        named[result.baseline.setting] = "your defaults"
    if result.reference is not None:
        named.setdefault(result.reference.setting, "first guess that worked")
    chosen = best(data)
    if chosen is not None:
        # Nothing is called best if the verdict is to keep the defaults.
        keeps = result.conclusion is not None and result.conclusion.keeps_baseline
        name = "best candidate" if keeps else "best"
        named[chosen] = f"best: {named[chosen]}" if chosen in named else name
    runs, drawn = counted(data), []
    for setting, name in named.items():
        colour = style.BEST if name.startswith("best") else style.OTHER
        colour = style.BASELINE if name == "your defaults" else colour
        drawn.append(Side(name, setting, tuple(r for r in runs if r.setting == setting), colour))
    return drawn


def standing(data: StudyView, setting: Setting) -> list[LaunchRecord]:
    """The launches that may stand for a setting: the median one, then those that ended."""
    runs_of_setting = [
        record
        for record in reversed(estimates.counted(data.records))
        if data.pooling.canonical(record.setting) == setting
    ]
    median = median_run(data.records, setting, data.pooling.canonical)
    return sorted(
        runs_of_setting,
        key=lambda r: (r is not median, r.outcome.window is not None, not r.outcome.samples),
    )


def centre(costs: Sequence[float]) -> Centre:
    """The median with its 95 % interval (signed rank); with too few runs for one their range."""
    median = statistics.median(costs)
    logs = interval([math.log(cost) for cost in costs], ERROR)
    if logs is not None:
        low, high = min(median, math.exp(logs[1])), max(median, math.exp(logs[2]))
        return Centre(median, low, high, "95 % interval")
    how = "range" if len(costs) > 1 else ""
    return Centre(median, min(costs), max(costs), how)


def said(objective: ObjectiveSpec, run: DrawnRun) -> str:
    """What came of a launch, in words."""
    if run.cost is not None:
        return figures.shown(objective, run.cost)
    if run.stopped is not None:
        return figures.stopped(objective, run.stopped)
    return wording.failure(run.failure)


def spelled(objective: ObjectiveSpec, middle: Centre) -> str:
    """``3.60 s (95 % interval 3.58 to 3.61 s)``."""
    text = figures.shown(objective, middle.median)
    if not middle.how:
        return f"{text} (one run)"
    low, high = (figures.shown(objective, end) for end in ends(objective, middle))
    unit = low.partition(" ")[2]
    low = low.removesuffix(f" {unit}") if high.endswith(f" {unit}") else low
    return f"{text} ({middle.how} {low} to {high})"


def ends(objective: ObjectiveSpec, middle: Centre) -> tuple[float, float]:
    """The costs at the ends of the interval, that of the smaller figure first."""
    return (middle.high, middle.low) if objective.maximize else (middle.low, middle.high)


def typical(objective: ObjectiveSpec, measurement: Measurement) -> str:
    """A setting's median with its interval, or what is known of one that was only stopped."""
    if measurement.elapsed_s is not None:
        return spelled(objective, centre([sample.elapsed_s for sample in measurement.samples]))
    return (
        figures.stopped(objective, measurement.stopped)
        if measurement.stopped
        else "nothing is known"
    )
