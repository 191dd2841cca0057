"""How much repeated measurements differ: the one estimator of spread, with named priors. Pure.

Few repeats may agree by chance. So each estimate is shrunk towards what is usual: a `SpreadPrior`
counts as this many degrees of freedom of that spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class SpreadPrior(NamedTuple):
    """The usual standard deviation, and the degrees of freedom that it counts as."""

    sd: float
    freedom: float


#: Runs of one setting, as logarithms of their times.
RUNS = SpreadPrior(0.05, 4)

#: The time of one log interval, relative, from launch to launch of a job.
INTERVALS = SpreadPrior(0.05, 2)

#: No prior: the values alone count, and a single value has no spread.
NONE = SpreadPrior(0.0, 0)


def spread(squares: float, freedom: float, prior: SpreadPrior) -> float:
    """Return the standard deviation by the sum of squared deviations; 0 without any freedom."""
    total = freedom + prior.freedom
    return math.sqrt((squares + prior.freedom * prior.sd**2) / total) if total else 0.0


def pooled(groups: Iterable[Sequence[float]], prior: SpreadPrior) -> tuple[float, float]:
    """Return the standard deviation within groups, and its degrees of freedom with the prior's."""
    squares, freedom = 0.0, 0
    for group in groups:
        mean = statistics.fmean(group)
        squares += math.fsum((value - mean) ** 2 for value in group)
        freedom += len(group) - 1
    return spread(squares, freedom, prior), freedom + prior.freedom
