"""From the pace of a window to the figure of a full cold run, by what the cold runs showed. Pure.

A full run takes ``pace * (N + w)``: its N iterations, and w more for what costs more than they
do: the first ones, evaluations, what comes behind the last. In a window these are not counted,
so w is learnt from the logs of the cold launches: a full run's time over its usual pace, less N.
For the objective ``steady``, seconds an iteration from the end of the warm-up on, it is
``pace * (N + w) / N``: that stretch of a run has evaluations and an end too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tuner import stats
from tuner.model import Finished, LaunchRecord, ObjectiveSpec, Progress
from tuner.pace import steady_s
from tuner.racing import Noise

#: An interval of the log that took so many times the usual had something else in it.
UNUSUAL = 1.5


@dataclass(frozen=True)
class Expected:
    """What a full cold run of the job is known to be.

    Attributes:
        iterations: How many it makes.
        warm_up_iterations: What it takes beyond them, in iterations (w above).
        steady: The figure is of one iteration.
        incumbent_s: The figure of the best setting so far, ``None`` before there is one.
    """

    iterations: int
    warm_up_iterations: float
    steady: bool = False
    incumbent_s: float | None = None

    def figure_s(self, pace_s: float) -> float:
        """The figure of a full run at this pace, s."""
        return self.clock_s(pace_s * (self.iterations + self.warm_up_iterations))

    @property
    def usual_s(self) -> float | None:
        """The pace of the best setting so far, s an iteration; ``None`` before there is one."""
        return None if self.incumbent_s is None else self.incumbent_s / self.figure_s(1.0)

    def log(self, times_s: Sequence[float]) -> list[tuple[int, float]]:
        """(iteration, elapsed_s) of a run that warmed up as expected and then took these times.

        Its clock is that of the figure: forecast to the end of the run, it comes to
        :meth:`figure_s` of their mean.
        """
        if not times_s:
            return []
        total_s = self.warm_up_iterations * math.fsum(times_s) / len(times_s)
        found = []
        for iteration, time_s in enumerate(times_s, 1):
            total_s += time_s
            found.append((iteration, self.clock_s(total_s)))
        return found

    def clock_s(self, seconds: float) -> float:
        """So many seconds of a running job on the clock of the figure."""
        return seconds / self.iterations if self.steady else seconds


def expected(
    records: Iterable[LaunchRecord],
    iterations: int,
    objective: ObjectiveSpec,
    incumbent_s: float | None = None,
) -> Expected:
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
    found = _excesses(stats.counted(cold), steady) or _excesses(cold, steady)
    unknown = 0.0 if steady else Noise().warm_up_typical
    w = statistics.median(found) if found else unknown
    return Expected(iterations, w, steady, incumbent_s)


def _excesses(records: Iterable[LaunchRecord], steady: bool) -> list[float]:
    excess = steady_excess if steady else warm_up_iterations
    found = (excess(record.outcome.progress) for record in records)
    return [w for w in found if w is not None]


def rescaled(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """The launches, all windows on the one scale that all of these launches show.

    Each was scaled by what was known when it was made.
    """
    if not any(record.outcome.window for record in records):
        return tuple(records)
    known = expected(records, 0, objective)
    return tuple(_rescaled(record, known) for record in records)


def _rescaled(record: LaunchRecord, known: Expected) -> LaunchRecord:
    outcome = record.outcome
    if outcome.window is None or not isinstance(outcome.ending, Finished):
        return record
    scale = replace(known, iterations=outcome.ending.iterations)
    ending = replace(outcome.ending, elapsed_s=scale.figure_s(outcome.window.pace_s))
    return replace(record, outcome=replace(outcome, ending=ending))


def warm_up_iterations(log: Sequence[Progress]) -> float | None:
    """What a run took beyond its iterations at their usual pace, in such iterations.

    Returns:
        At least 0; ``None`` where the log has no two entries with time between them.
    """
    pace_s = usual_s(log)
    return None if pace_s is None else max(0.0, log[-1].elapsed_s / pace_s - log[-1].iteration)


def steady_excess(log: Sequence[Progress]) -> float | None:
    """By how much the steady figure lies above the usual pace, in iterations of a whole run.

    Returns:
        At least 0; ``None`` where the log does not tell.
    """
    pace_s, figure_s = usual_s(log), steady_s([(each.iteration, each.elapsed_s) for each in log])
    if pace_s is None or figure_s is None:
        return None
    return max(0.0, log[-1].iteration * (figure_s / pace_s - 1))


def usual_s(log: Sequence[Progress]) -> float | None:
    """The pace of a run, s an iteration, without what takes `UNUSUAL` times as much.

    Returns:
        ``None`` where the log has no two entries with time between them.
    """
    intervals = [
        (after.iteration - before.iteration, after.elapsed_s - before.elapsed_s)
        for before, after in pairwise(log)
        if after.iteration > before.iteration and after.elapsed_s > before.elapsed_s
    ]
    if not intervals:
        return None
    middle = statistics.median(time_s / made for made, time_s in intervals)
    usual = [(made, time_s) for made, time_s in intervals if time_s / made <= UNUSUAL * middle]
    return math.fsum(time_s for _, time_s in usual) / sum(made for made, _ in usual)
