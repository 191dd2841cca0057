"""What a full run takes beyond its iterations at their usual pace, by the logs of cold runs. Pure.

The first iterations, evaluations, what comes behind the last. Part of it is as long whatever the
setting (libraries that start, files that are written), part goes with the pace (an evaluation):
``seconds + iterations * pace``. One setting alone does not tell these apart: then it is taken for
half and half, until settings of other paces show it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.model import LaunchRecord, Progress, Setting
from tuner.search.throughput import steady_s

#: An interval of the log that took so many times the usual had something else in it.
UNUSUAL = 1.5

#: So much of it does not go with the pace, before that was seen; it counts as so many settings.
FIXED_SHARE, PRIOR_WEIGHT = 0.5, 0.1


@dataclass(frozen=True)
class FixedOverhead:
    """What comes on top of a run's iterations: so many more of them, and so many seconds."""

    iterations: float
    seconds: float = 0.0

    def at_s(self, pace_s: float) -> float:
        """What that is at a pace (s an iteration), s."""
        return self.iterations * pace_s + self.seconds


@dataclass(frozen=True)
class _Seen:
    """One setting: its pace, s an iteration, and what its run took beyond that, s."""

    pace_s: float
    excess_s: float


def learned(records: Iterable[LaunchRecord], steady: bool) -> FixedOverhead | None:
    """What the logs of these launches show; ``None``: nothing.

    Args:
        records: Cold ones that came to their end.
        steady: The figure is of one iteration from the end of the warm-up on: what comes before
            is in none.
    """
    excess = steady_excess if steady else warm_up_iterations
    groups: dict[Setting, list[_Seen]] = {}
    for record in records:
        log = record.outcome.progress
        pace_s, iterations = usual_s(log), excess(log)
        if pace_s is not None and iterations is not None:
            groups.setdefault(record.setting, []).append(_Seen(pace_s, iterations * pace_s))
    return _line([_middle(runs) for runs in groups.values()]) if groups else None


def _middle(runs: Sequence[_Seen]) -> _Seen:
    return _Seen(
        statistics.median(run.pace_s for run in runs),
        statistics.median(run.excess_s for run in runs),
    )


def _line(seen: Sequence[_Seen]) -> FixedOverhead:
    """The least squares of what each is off by as a share of its pace, and the prior.

    In units of the median pace and the median excess: ``fixed + growing * x = y`` with the
    weights ``1 / x``; neither part is below 0.
    """
    pace_s = statistics.median(each.pace_s for each in seen)
    excess_s = statistics.median(each.excess_s for each in seen)
    if excess_s <= 0:
        return FixedOverhead(0.0)
    points = [(each.pace_s / pace_s, each.excess_s / excess_s) for each in seen]
    ones, halves = sum(x**-2 for x, _ in points), sum(1 / x for x, _ in points)
    offs, rises = sum(y / x**2 for x, y in points), sum(y / x for x, y in points)
    a, d, b = ones + PRIOR_WEIGHT, len(points) + PRIOR_WEIGHT, halves
    e, f = offs + PRIOR_WEIGHT * FIXED_SHARE, rises + PRIOR_WEIGHT * (1 - FIXED_SHARE)
    fixed, growing = (e * d - f * b) / (a * d - b * b), (f * a - e * b) / (a * d - b * b)
    if fixed < 0:
        fixed, growing = 0.0, rises / len(points)
    elif growing < 0:
        fixed, growing = offs / ones, 0.0
    return FixedOverhead(growing * excess_s / pace_s, fixed * excess_s)


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
