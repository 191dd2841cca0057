"""How fast a running job is with one setting: from the times of its iterations since the switch.

**Warm-up.** The first iterations after a switch are slower: thread pools are made anew, caches are
cold, a loader hands out what it had prepared before. Of the n iterations seen the first d are
discarded, at least 1 and at most half of them, with the d that minimises the marginal standard
error ``sum (x_i - mean)^2 / (n - d)^2`` of the others (MSER: White, "An effective truncation
heuristic for bias reduction in simulation output", Simulation 69 (1997) 323-334). Iterations in
which an epoch began or the model was evaluated are not counted at all.

**Length.** Iterations are correlated, so the standard error of their mean is that of Newey and
West (Econometrica 55 (1987) 703-708) with ``n^(1/3)`` lags, and never less than that of
independent ones. It is an estimate itself: for few values it is widened by the standard deviation
of Student's t, or chance would end windows. A window ends once this error is small enough.

**Batches.** A window of 20 microseconds an iteration has tens of thousands of them: to analyse
each, again and again, takes longer than the window, on the cores of the ranks. So they are kept
as means of batches of one size, which doubles whenever there are too many (Schmeiser, "Batch size
effects in the analysis of simulation output", Operations Research 30 (1982) 556-568). The mean
stays that of the iterations, and so does its standard error, as long as what correlates lies
within a few batches.

Pure: no clock, no files.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

#: At this many values neighbours are joined in pairs; even. Batch means need no more than some ten
#: values, but the slow first iterations are told apart by far more.
MOST = 1000

#: No figure is made of fewer iterations …
LEAST = 5
#: … or of fewer than this, if the job ended before.
LEAST_ENDED = 3

#: A loader that gives each worker a batch in turn repeats itself after as many iterations as it has
#: workers: a window holds this many of these periods.
PERIODS = 2

#: A shorter window shows how the kernel shares out the CPUs (slices and quotas of up to 0.1 s),
#: not how fast the setting is, s.
LEAST_S = 0.25

#: The error of one window may be this many times the precision that contenders are compared with:
#: contenders are measured again anyway.
PRECISIONS = 2.0

#: For a setting slower than the best, an error of this share of the distance (of logarithms) is
#: enough: it is slower beyond doubt, and a model learns enough from it.
DISTANCE_SHARE = 0.25


class BatchMeans:
    """Values in the order they came, as means of batches.

    Attributes:
        each: How many values each mean stands for, a power of 2; 1 up to `MOST` values.
        means: Those of the full batches, the oldest first; fewer than `MOST`.
        seen: How many values came.
    """

    def __init__(self) -> None:
        self.each, self.means, self.seen = 1, list[float](), 0
        self._sum, self._missing = 0.0, 1

    def add(self, value: float) -> None:
        """Take one more."""
        self.seen += 1
        self._sum += value
        self._missing -= 1
        if self._missing:
            return
        self.means.append(self._sum / self.each)
        if len(self.means) >= MOST:
            pairs = zip(self.means[::2], self.means[1::2], strict=True)
            self.means = [(first + second) / 2 for first, second in pairs]
            self.each *= 2
        self._sum, self._missing = 0.0, self.each


class Iterations:
    """The iterations since a switch."""

    def __init__(self) -> None:
        self._all, self._unmarked = BatchMeans(), BatchMeans()

    @property
    def seen(self) -> int:
        """How many there were."""
        return self._all.seen

    def add(self, time_s: float, marked: bool) -> None:
        """Take one more; ``marked``: it had something else in it, such as an evaluation."""
        self._all.add(time_s)
        if not marked:
            self._unmarked.add(time_s)

    @property
    def counted(self) -> BatchMeans:
        """All but the marked ones; if more than half are marked, all."""
        return self._unmarked if 2 * self._unmarked.seen >= self._all.seen else self._all


@dataclass(frozen=True)
class Estimate:
    """The result of a window.

    Attributes:
        discarded: Iterations discarded as warm-up.
        times_s: The times of those that count, s; if there are many, means of batches.
        each: How many iterations each time stands for.
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
    """The estimate from these times, the oldest first, each a mean of `each` iterations.

    Discards by MSER at least 1 and at most half of them (of one, that one).
    """
    n = len(times_s)
    if n < 2:
        return Estimate(each * n, (), each)
    # Centred at the median: the squares of large times would swallow their differences.
    middle = statistics.median(times_s)
    centred = [time_s - middle for time_s in reversed(times_s)]
    sums = list(accumulate(centred))
    squares = list(accumulate(value * value for value in centred))

    def marginal_error(discarded: int) -> float:
        left = n - discarded
        spread = squares[left - 1] - sums[left - 1] ** 2 / left
        return max(0.0, spread) / left**2

    discarded = min(range(1, n // 2 + 1), key=marginal_error)
    return Estimate(each * discarded, tuple(times_s[discarded:]), each)


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


def is_long_enough(
    window: Estimate, *, precision: float, ratio: float | None, most: int, period: int = 1
) -> bool:
    """Whether the window may end.

    Args:
        window: Its estimate so far.
        precision: What contenders are compared with, a share.
        ratio: The setting's figure over that of the incumbent; ``None``: there is none.
        most: No more iterations than this are measured: those of a full run.
        period: After how many iterations the job may repeat itself.
    """
    if window.iterations >= most:
        return True
    if window.iterations < max(LEAST, PERIODS * period) or window.took_s < LEAST_S:
        return False
    needed = PRECISIONS * precision
    if ratio is not None:
        needed = max(needed, DISTANCE_SHARE * math.log(ratio))
    return window.pace_se <= needed
