"""How much repeated measurements differ: the one estimator of spread, with named priors. Pure.

Every package estimates spread here: `pooled` for groups of values (the logarithms of times of the
same setting, a group for each setting), `spread` if the squared deviations are known already.

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

#: Nothing is known beforehand; a single value has no spread.
NONE = SpreadPrior(0.0, 0)


def within(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """The squared deviations of values from the means of their groups, and degrees of freedom."""
    squares, freedom = 0.0, 0
    for group in groups:
        mean = statistics.fmean(group)
        squares += math.fsum((value - mean) ** 2 for value in group)
        freedom += len(group) - 1
    return squares, freedom


def spread(squares: float, freedom: float, prior: SpreadPrior) -> float:
    """The standard deviation of single values; 0 if neither they nor the prior say anything."""
    total_freedom = freedom + prior.freedom
    return (
        math.sqrt((squares + prior.freedom * prior.sd**2) / total_freedom) if total_freedom else 0.0
    )


def pooled(groups: Iterable[Sequence[float]], prior: SpreadPrior) -> tuple[float, float]:
    """The standard deviation within groups, and its degrees of freedom, those of the prior too."""
    squares, freedom = within(groups)
    return spread(squares, freedom, prior), freedom + prior.freedom
