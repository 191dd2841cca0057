"""Estimates how fast a job runs with a setting from the times of its iterations since the switch.

**Warm-up.** The first iterations after a switch are slower. Of n iterations the first d are
discarded, at least 1 and at most half of them, with the d that minimises the marginal standard
error ``sum (x_i - mean)^2 / (n - d)^2`` of the others (MSER: White, "An effective truncation
heuristic for bias reduction in simulation output", Simulation 69 (1997) 323-334).

**Length.** Iterations are correlated, so the standard error of their mean is that of Newey and
West (Econometrica 55 (1987) 703-708) with ``n^(1/3)`` lags, and never less than that of
independent ones. It is an estimate itself: for few values it is widened by the standard deviation
of Student's t. A window ends once this error is small enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.live.eligibility import LEAST_ITERATIONS
from tuner.live.full_run import FullRunModel, with_projection
from tuner.model import Stopped
from tuner.search.stopper import EarlyStopper

#: A job that ended before `LEAST_ITERATIONS` gives a figure if so many were measured.
LEAST_ITERATIONS_AT_END = 3

#: The setting may be stopped after so many, if even the quickest of them is too slow.
LEAST_ITERATIONS_TO_STOP = 2

#: A loader that gives each worker a batch in turn repeats itself after as many iterations as it has
#: workers: a window holds this many of these periods.
PERIODS = 2

#: The shortest window, s. A shorter one shows how the kernel shares out the CPUs (slices and quotas
#: of up to 0.1 s), not how fast the setting is.
LEAST_S = 0.25

#: The error of one window may be this many times the precision that contenders are compared with:
#: contenders are measured again anyway.
PRECISION_FACTOR = 2.0

#: For a setting slower than the best, an error of this share of the distance (of logarithms) is
#: enough: it is slower beyond doubt, and a model learns enough from it.
DISTANCE_SHARE = 0.25


@dataclass(frozen=True)
class WindowEstimate:
    """The result of a window: so many iterations were discarded as warm-up, these times count."""

    discarded: int
    times_s: tuple[float, ...]

    @property
    def iterations(self) -> int:
        """Return how many iterations count."""
        return len(self.times_s)

    @property
    def took_s(self) -> float:
        """How long they took together, s."""
        return math.fsum(self.times_s)

    @property
    def pace_s(self) -> float:
        """Seconds an iteration, their mean; needs one that counts."""
        return self.took_s / self.iterations

    @property
    def pace_se(self) -> float:
        """The standard error of the pace, relative; infinite for one iteration."""
        return relative_error(self.times_s)


def estimate(times_s: Sequence[float]) -> WindowEstimate:
    """Return the estimate from the times of iterations, the oldest first: the warm-up by MSER."""
    n = len(times_s)
    if n < 2:
        return WindowEstimate(n, ())
    # Centred at the median: the squares of large times would swallow their differences.
    backwards = np.array(times_s[::-1]) - np.median(times_s)
    kept = np.arange(1, n + 1)  # how many iterations, the latest ones, are not discarded
    squares = np.cumsum(backwards**2) - np.cumsum(backwards) ** 2 / kept
    errors = (np.maximum(squares, 0.0) / kept**2)[::-1]  # by how many are discarded
    discarded = 1 + int(np.argmin(errors[1 : n // 2 + 1]))
    return WindowEstimate(discarded, tuple(times_s[discarded:]))


def relative_error(times_s: Sequence[float]) -> float:
    """Return the standard error of the mean over the mean, for correlated values.

    It is infinite for a single value, and for a mean of 0.
    """
    times, n = np.array(times_s), len(times_s)
    mean = float(times.mean())
    if n < 2 or mean <= 0:
        return math.inf
    deviations = times - mean
    independent = total = float(deviations @ deviations)
    lags = round(n ** (1 / 3))
    for lag in range(1, lags + 1):  # Newey and West's weights fall with the lag
        total += 2 * (1 - lag / (lags + 1)) * float(deviations[lag:] @ deviations[:-lag])
    count = max(n, 4)  # of fewer values the variance of t is infinite
    t_variance = (count - 1) / (count - 3)  # with count - 1 degrees of freedom
    return math.sqrt(t_variance * max(total, independent) / (n * (n - 1))) / mean


def is_long_enough(
    window: WindowEstimate, model: FullRunModel, precision: float, *, period: int = 1
) -> bool:
    """Return whether the window may end.

    Contenders are told apart as far as the share `precision`. After `period` iterations the job may
    repeat itself. No more iterations than a full run has are measured.
    """
    if window.iterations >= model.iterations:
        return True
    if window.iterations < max(LEAST_ITERATIONS, PERIODS * period) or window.took_s < LEAST_S:
        return False
    most_error = PRECISION_FACTOR * precision
    if model.incumbent_s is not None:
        ratio = model.figure_s(window.pace_s) / model.incumbent_s
        most_error = max(most_error, DISTANCE_SHARE * math.log(ratio))
    return window.pace_se <= most_error


def stopped(
    window: WindowEstimate, model: FullRunModel, stopper: EarlyStopper | None
) -> Stopped | None:
    """Return why the setting cannot win, by the stopper of a launch; ``None``: it goes on."""
    if stopper is None or window.iterations < LEAST_ITERATIONS_TO_STOP or window.took_s < LEAST_S:
        return None
    times_s = window.times_s
    if len(times_s) < LEAST_ITERATIONS:  # a compiler, say, may have made one of so few slower
        times_s = (min(times_s),) * len(times_s)
    log = model.log(times_s)
    _, elapsed_s = log[-1]
    verdict = stopper.in_window()(log, elapsed_s, 0.0)  # a window has no start-up
    if not isinstance(verdict, Stopped):
        return None
    verdict = replace(verdict, log_sd=max(verdict.log_sd, window.pace_se))
    return with_projection(verdict, model.figure_s(window.pace_s))
