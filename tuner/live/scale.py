"""From the pace of a window to the figure of a full cold run, by what the cold runs showed. Pure.

A full run takes its N iterations, and more for what costs more than they do: the first ones,
evaluations, what comes behind the last. In a window these are not counted, so what they come to is
learnt from the logs of the cold launches (:mod:`tuner.live.fixed_overhead`): ``pace * (N + w) +
c``. For the objective ``steady``, seconds an iteration from the end of the warm-up on, it is that
over N: that stretch of a run has evaluations and an end too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuner.live.fixed_overhead import FixedOverhead, learned
from tuner.model import Finished, LaunchRecord, ObjectiveSpec, Stopped
from tuner.search.stopper import Noise
from tuner.stats import estimates

#: The rule by which a window was stopped in an iteration that did not end: its pace is not known.
SILENT = "silence"


@dataclass(frozen=True)
class FullRunModel:
    """What a full cold run of the job is known to be.

    Attributes:
        iterations: How many it makes; 0: not known.
        excess: What it takes beyond them (w and c above).
        steady: The figure is of one iteration.
        incumbent_s: The figure of the best setting so far, ``None`` before there is one.
    """

    iterations: int
    excess: FixedOverhead
    steady: bool = False
    incumbent_s: float | None = None

    def figure_s(self, pace_s: float) -> float:
        """The figure of a full run at this pace, s."""
        return self.clock_s(pace_s * self.iterations + self.excess.at_s(pace_s))

    @property
    def usual_s(self) -> float | None:
        """The pace of the best setting so far, s an iteration; ``None`` before there is one."""
        if self.incumbent_s is None:
            return None
        fixed_s = self.figure_s(0.0)
        slope = self.figure_s(1.0) - fixed_s
        # a figure that has no room for it shows that the fixed part is known badly
        beyond_s = self.incumbent_s - fixed_s if self.incumbent_s > fixed_s else self.incumbent_s
        return beyond_s / slope

    def log(self, times_s: Sequence[float], each: int = 1) -> list[tuple[int, float]]:
        """(iteration, elapsed_s) of a run that warmed up as expected and then took these times.

        Each time stands for `each` iterations, whose mean it is.

        Its clock is that of the figure: forecast to the end of the run, it comes to
        :meth:`figure_s` of their mean.
        """
        if not times_s:
            return []
        total_s = self.excess.at_s(math.fsum(times_s) / len(times_s))
        found = []
        for entry, time_s in enumerate(times_s, 1):
            total_s += each * time_s
            found.append((each * entry, self.clock_s(total_s)))
        return found

    def clock_s(self, seconds: float) -> float:
        """So many seconds of a running job on the clock of the figure."""
        return seconds / self.iterations if self.steady else seconds


def expected(
    records: Iterable[LaunchRecord],
    iterations: int,
    objective: ObjectiveSpec,
    incumbent_s: float | None = None,
) -> FullRunModel:
    """What the cold launches of a study show of its full runs.

    Args:
        records: Launches of the study; windows and those without a result are passed over.
        iterations: How many a full run makes.
        objective: Its clock is "elapsed" or "steady".
        incumbent_s: The figure of the best setting so far.
    """
    cold = [each for each in records if each.outcome.window is None and each.outcome.samples]
    steady = objective.clock == "steady"
    # a warm-up rather than nothing
    found = learned(estimates.counted(cold), steady) or learned(cold, steady)
    unknown = FixedOverhead(0.0 if steady else Noise().warm_up_typical)
    return FullRunModel(iterations, found or unknown, steady, incumbent_s)


def rescaled(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """The launches, all windows on the one scale that all of these launches show.

    Each was scaled by what was known when it was made.
    """
    if not any(record.outcome.window for record in records):
        return tuple(records)
    known = expected(records, 0, objective)
    lengths = {estimates.batch(each.setting): 0 for each in records}
    for batch in lengths:
        own = (each for each in records if estimates.batch(each.setting) == batch)
        lengths[batch] = estimates.full_length(own) or 0
    return tuple(
        _rescaled(each, replace(known, iterations=lengths[estimates.batch(each.setting)]))
        for each in records
    )


def _rescaled(record: LaunchRecord, known: FullRunModel) -> LaunchRecord:
    """A window as it is on this scale; a full run makes the iterations that it was scaled by."""
    outcome, ending = record.outcome, record.outcome.ending
    if outcome.window is None:
        return record
    pace_s = outcome.window.pace_s
    if isinstance(ending, Finished):
        scale = replace(known, iterations=ending.iterations)
        ending = replace(ending, elapsed_s=scale.figure_s(pace_s))
    elif isinstance(ending, Stopped) and ending.rule != SILENT and pace_s and known.iterations:
        ending = going(ending, known.figure_s(pace_s))
    return replace(record, outcome=replace(outcome, ending=ending))


def going(stopped: Stopped, projection_s: float) -> Stopped:
    """What was stopped, going there: its interval holds that."""
    high_s = None if stopped.high_s is None else max(stopped.high_s, projection_s)
    low_s = min(stopped.low_s, projection_s)
    return replace(stopped, projection_s=projection_s, low_s=low_s, high_s=high_s)
