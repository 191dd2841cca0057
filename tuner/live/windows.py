"""How fast a running job is with one setting: from the times of its iterations since the switch.

**Steadiness.** The first iterations after a switch are no measure: pools of threads are made
anew, caches are cold, a loader hands out what it had prepared before. Of the n iterations seen,
the first d are thrown away, at least 1 and at most half of them, with the d that minimises the
marginal standard error ``sum (x_i - mean)^2 / (n - d)^2`` of the others (MSER: White, "An
effective truncation heuristic for bias reduction in simulation output", Simulation 69 (1997)
323-334). Iterations in which an epoch began or the model was evaluated are not counted at all.
Very many are looked at as the means of batches (:mod:`tuner.live.batches`).

**Length.** Iterations are correlated, so the standard error of their mean is that of Newey and
West (Econometrica 55 (1987) 703-708) with ``n^(1/3)`` lags, and never less than that of
independent ones. It is an estimate itself: of few values it is taken as much greater as the
standard deviation of Student's t is than 1, or chance would end windows. A window is long enough
once it is as good as is needed.

Pure: no clock, no files.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

#: No figure is made of fewer iterations …
LEAST = 5
#: … or of fewer than this, where the job ended before.
LEAST_ENDED = 3

#: A loader that gives each worker a batch in turn repeats itself after as many iterations as it has
#: workers: a window holds so many of these periods.
PERIODS = 2

#: A shorter window shows how the kernel shares out the CPUs (slices and quotas of up to 0.1 s),
#: not how fast the setting is, s.
LEAST_S = 0.25

#: One window may be wrong by so many times what contenders are told apart by (a standard error):
#: they are measured again anyway, as a first look at all the others need not be.
PRECISIONS = 2.0

#: What is slower than the best is needed no better than this share of the distance (of logarithms):
#: it is then slower beyond doubt, and how much by is known well enough for a model.
DISTANCE_SHARE = 0.25


@dataclass(frozen=True)
class Estimate:
    """What a window tells.

    Attributes:
        discarded: Iterations thrown away at its begin.
        times_s: How long those that count took, s; of many the means of batches.
        each: So many iterations each time stands for (:mod:`tuner.live.batches`).
    """

    discarded: int
    times_s: tuple[float, ...]
    each: int = 1

    @property
    def iterations(self) -> int:
        """How many count."""
        return self.each * len(self.times_s)

    @property
    def took_s(self) -> float:
        """How long they took together, s."""
        return self.each * math.fsum(self.times_s)

    @property
    def pace_s(self) -> float:
        """Seconds an iteration, their mean; needs one that counts."""
        return math.fsum(self.times_s) / len(self.times_s)

    @property
    def pace_se(self) -> float:
        """The standard error of the pace, relative; infinite for one iteration."""
        return relative_error(self.times_s)


def estimate(times_s: Sequence[float], each: int = 1) -> Estimate:
    """What the iterations since the switch tell that count, the oldest first; of `each` a mean."""
    discarded = truncation(times_s)
    return Estimate(each * discarded, tuple(times_s[discarded:]), each)


def truncation(times_s: Sequence[float]) -> int:
    """How many to throw away at the begin, by MSER; at least 1, at most half (of one, that one)."""
    n = len(times_s)
    if n < 2:
        return n
    # About their median: the squares of large times would swallow their differences.
    middle = statistics.median(times_s)
    centred = [time_s - middle for time_s in reversed(times_s)]
    sums = list(accumulate(centred))
    squares = list(accumulate(value * value for value in centred))

    def marginal_error(discarded: int) -> float:
        left = n - discarded
        spread = squares[left - 1] - sums[left - 1] ** 2 / left
        return max(0.0, spread) / left**2

    return min(range(1, n // 2 + 1), key=marginal_error)


def relative_error(times_s: Sequence[float]) -> float:
    """The standard error of the mean over the mean, for correlated values; needs one value.

    Infinite for a single one.
    """
    n = len(times_s)
    mean = math.fsum(times_s) / n
    if n < 2 or mean <= 0:
        return math.inf
    off = [time_s - mean for time_s in times_s]
    independent = math.fsum(value * value for value in off)
    total = independent
    lags = round(n ** (1 / 3))
    for lag in range(1, lags + 1):
        weight = 1 - lag / (lags + 1)
        total += 2 * weight * math.fsum(a * b for a, b in zip(off, off[lag:], strict=False))
    known = max(n, 4)
    few = (known - 1) / (known - 3)  # the variance of t with n - 1 degrees of freedom
    return math.sqrt(few * max(total, independent) / (n * (n - 1))) / mean


def is_long_enough(found: Estimate, needed: float, most: int, period: int = 1) -> bool:
    """Whether the window may end.

    Args:
        found: What it tells so far.
        needed: The relative standard error that is good enough.
        most: No more iterations than this are measured: those of a full run.
        period: After so many iterations the job may repeat itself.
    """
    if found.iterations >= most:
        return True
    if found.iterations < max(LEAST, PERIODS * period) or found.took_s < LEAST_S:
        return False
    return found.pace_se <= needed


def needed_error(precision: float, ratio: float | None) -> float:
    """The relative standard error that is good enough for one window.

    Args:
        precision: What contenders are to be told apart by, a share.
        ratio: Its figure over that of the best so far; ``None``: nothing is known of one.
    """
    least = PRECISIONS * precision
    return least if ratio is None else max(least, DISTANCE_SHARE * math.log(ratio))
