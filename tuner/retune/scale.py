"""From the pace of a window to the figure of a full cold run, by what the cold runs showed. Pure.

A full run takes ``pace * (N + w)``: its N iterations, and w more for what costs more than they
do: the first ones, evaluations, what comes behind the last. In a window these are not counted,
so w is learnt from the logs of the cold launches: a full run's time over its usual pace, less N.
For the objective ``steady`` the figure is the pace itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.model import LaunchRecord, ObjectiveSpec, Progress
from tuner.racing import Noise

#: An interval of the log that took so many times the usual had something else in it.
UNUSUAL = 1.5


@dataclass(frozen=True)
class Expected:
    """What a full cold run of the job is known to be.

    Attributes:
        iterations: How many it makes.
        warm_up_iterations: What it takes beyond them, in iterations (w above).
        steady: The figure is the pace.
        incumbent_s: The figure of the best setting so far, ``None`` before there is one.
    """

    iterations: int
    warm_up_iterations: float
    steady: bool = False
    incumbent_s: float | None = None

    def figure_s(self, pace_s: float) -> float:
        """The figure of a full run at this pace, s."""
        return pace_s if self.steady else pace_s * (self.iterations + self.warm_up_iterations)

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
        w = 0.0 if self.steady else self.warm_up_iterations
        total_s = w * math.fsum(times_s) / len(times_s)
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
    found = [
        w
        for record in records
        if record.outcome.window is None and record.outcome.samples
        if (w := warm_up_iterations(record.outcome.progress)) is not None
    ]
    w = statistics.median(found) if found else Noise().warm_up_typical
    return Expected(iterations, w, objective.clock == "steady", incumbent_s)


def warm_up_iterations(log: Sequence[Progress]) -> float | None:
    """What a run took beyond its iterations at their usual pace, in such iterations.

    Returns:
        At least 0; ``None`` where the log has no two entries with time between them.
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
    pace_s = math.fsum(time_s for _, time_s in usual) / sum(made for made, _ in usual)
    return max(0.0, log[-1].elapsed_s / pace_s - log[-1].iteration)
