"""How fast a running job is with one setting: from the times of its iterations since the switch.

**Warm-up.** The first iterations after a switch are slower. Of n iterations the first d are
discarded, at least 1 and at most half of them, with the d that minimises the marginal standard
error ``sum (x_i - mean)^2 / (n - d)^2`` of the others (MSER: White, "An effective truncation
heuristic for bias reduction in simulation output", Simulation 69 (1997) 323-334).

**Length.** Iterations are correlated, so the standard error of their mean is that of Newey and
West (Econometrica 55 (1987) 703-708) with ``n^(1/3)`` lags, and never less than that of
independent ones. It is an estimate itself: for few values it is widened by the standard deviation
of Student's t. A window ends once this error is small enough. Very many iterations are analysed as
means of batches (Schmeiser, "Batch size effects in the analysis of simulation output", Operations
Research 30 (1982) 556-568).

Pure: no clock, no files.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tuner.live.scale import UNUSUAL, FullRunModel, with_projection
from tuner.model import Stopped
from tuner.search.stopper import EarlyStopper

#: No more values than this are analysed.
MOST = 1000

#: No figure is made of fewer iterations …
LEAST = 5
#: … or of fewer than this, if the job ended before.
LEAST_ENDED = 3

#: The setting may be stopped for so few, if even the quickest of them is too slow.
LEAST_STOPPED = 2

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


@dataclass(frozen=True)
class Estimate:
    """The result of a window.

    Attributes:
        discarded: Iterations discarded as warm-up.
        times_s: The times of those that count, s; if there are many, means of blocks.
        block_length: How many iterations each time is the mean of.
    """

    discarded: int
    times_s: tuple[float, ...]
    block_length: int = 1

    @property
    def iterations(self) -> int:
        """How many count."""
        return self.block_length * len(self.times_s)

    @property
    def took_s(self) -> float:
        """How long they took together, s."""
        return self.block_length * math.fsum(self.times_s)

    @property
    def pace_s(self) -> float:
        """Seconds an iteration, their mean; needs one that counts."""
        return math.fsum(self.times_s) / len(self.times_s)

    @property
    def pace_se(self) -> float:
        """The standard error of the pace, relative; infinite for one iteration."""
        return relative_error(self.times_s)


def estimate(times_s: Sequence[float]) -> Estimate:
    """The estimate from the times of iterations, the oldest first.

    Discards by MSER at least 1 and at most half of them (of one, that one).
    """
    block_length = max(1, math.ceil(len(times_s) / MOST))
    whole = range(0, len(times_s) - block_length + 1, block_length)
    means = [statistics.fmean(times_s[first : first + block_length]) for first in whole]
    n = len(means)
    if n < 2:
        return Estimate(block_length * n, (), block_length)
    # Centred at the median: the squares of large times would swallow their differences.
    middle = statistics.median(means)
    centred = [time_s - middle for time_s in reversed(means)]
    sums = list(accumulate(centred))
    squares = list(accumulate(value * value for value in centred))

    def marginal_error(discarded: int) -> float:
        left = n - discarded
        spread = squares[left - 1] - sums[left - 1] ** 2 / left
        return max(0.0, spread) / left**2

    discarded = min(range(1, n // 2 + 1), key=marginal_error)
    return Estimate(block_length * discarded, tuple(means[discarded:]), block_length)


def evaluation_s(marked_s: Sequence[float], pace_s: float) -> float:
    """What each evaluation took, s, of the times of marked iterations; 0.0: there was none.

    Other marked iterations, as an epoch's first, take about as long as the usual ones.
    """
    evaluations_s = [time_s - pace_s for time_s in marked_s if time_s > UNUSUAL * pace_s]
    return statistics.fmean(evaluations_s) if evaluations_s else 0.0


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
    count = max(n, 4)
    few = (count - 1) / (count - 3)  # the variance of t with n - 1 degrees of freedom
    return math.sqrt(few * max(total, independent) / (n * (n - 1))) / mean


def is_long_enough(
    window: Estimate, model: FullRunModel, precision: float, *, period: int = 1
) -> bool:
    """Whether the window may end.

    Args:
        window: Its estimate so far.
        model: What is known of a full run; no more iterations than it has are measured.
        precision: What contenders are compared with, a share.
        period: After how many iterations the job may repeat itself.
    """
    if window.iterations >= model.iterations:
        return True
    if window.iterations < max(LEAST, PERIODS * period) or window.took_s < LEAST_S:
        return False
    needed = PRECISIONS * precision
    if model.incumbent_s is not None:
        ratio = model.figure_s(window.pace_s) / model.incumbent_s
        needed = max(needed, DISTANCE_SHARE * math.log(ratio))
    return window.pace_se <= needed


def stopped(window: Estimate, model: FullRunModel, stopper: EarlyStopper | None) -> Stopped | None:
    """Why the setting cannot win; ``None``: the window goes on.

    Args:
        window: Its estimate so far.
        model: What is known of a full run.
        stopper: That of the launch; ``None``: the window runs to its end.
    """
    if stopper is None or window.iterations < LEAST_STOPPED or window.took_s < LEAST_S:
        return None
    times_s = window.times_s
    if len(times_s) < LEAST:  # one of so few may hold what happens once, as a compiler
        times_s = (min(times_s),) * len(times_s)
    log = model.log(times_s, window.block_length)
    verdict = stopper.in_window()(log, log[-1][1], 0.0)
    if not isinstance(verdict, Stopped):
        return None
    verdict = replace(verdict, log_sd=max(verdict.log_sd, window.pace_se))
    return with_projection(verdict, model.figure_s(window.pace_s))
