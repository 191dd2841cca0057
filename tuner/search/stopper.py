"""Decides while a launch runs whether it goes on or is stopped. Pure: no clock, no files.

A launch is stopped once the lower end of its projected finish exceeds the limit. The lower end
allows for the forecast's error, for the spread of single runs about their setting's median and
for the incumbent's own uncertainty (independent errors of logarithms: variances add).

- Before any entry only the time since the launch is known, and the start-up may depend on the
  setting: the launch may take as long as the limit and several usual start-ups. The same holds
  for a log that is written at the end only.
- With one entry a bound is known. The work done is at most ``k`` iterations (those of the entry,
  or those before the next one, which has not come yet), and the first iteration costs as much as
  ``w`` later ones, at most: the finish is at least ``elapsed * (N + w) / (k + w)``.
- From two entries on the finish is forecast (:func:`by_drift`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from tuner.model import Stopped
from tuner.model.outcome import CUT, ELAPSED, PACE, WHOLE_LAUNCH
from tuner.stats.noise import INTERVALS, RUNS, SpreadPrior, spread

#: (iteration, elapsed_s) of the log so far, the oldest first, iterations strictly rising.
Log = Sequence[tuple[int, float]]

#: How many standard deviations the lower end lies below the projection.
Z = 1.75

#: The start-up of a launch without an entry may have taken this many usual start-ups.
PATIENCE = 4.0

#: The prior of one interval's spread counts as this many intervals.
_PRIOR_INTERVALS = 3.0


@dataclass(frozen=True)
class Noise:
    """How much runs of this job differ; the search learns it as the study goes on."""

    run_sd: float = RUNS.sd  # of log elapsed_s of a run about its setting's median
    pace_cv: float = INTERVALS.sd  # of one log interval's time, relative
    warm_up_iterations: float = 12.0  # the first iteration costs at most this many later ones
    warm_up_typical: float = 3.0  # it usually costs this many
    startup_s: float | None = None  # typical time from launch to the training's own clock zero
    interval: int | None = None  # the most iterations between entries in earlier logs


@dataclass(frozen=True)
class Limit:
    """What a launch must come in under: ``factor`` times an estimate with a standard error."""

    seconds: float
    log_se: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True)
class GoOn:
    """The launch may still come in under the limit."""

    projection_s: float | None = None


Verdict = GoOn | Stopped


class EarlyStopper(Protocol):
    """Decides whether a running launch goes on or is stopped."""

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Return the verdict by the log so far; the start-up is known from its first entry on."""

    def in_window(self) -> EarlyStopper:
        """Return the stopper for a window, in which each iteration is an entry of the log."""
        return self


def elapsed_bound(log: Log, since_launch_s: float, startup_s: float | None) -> float:
    """Return the least that the launch's own elapsed time can be now, s.

    Only this launch counts: before its first entry nobody knows how long its start-up takes, as
    that may depend on the setting.
    """
    logged_s = log[-1][1] if log else 0.0
    return logged_s if startup_s is None else max(logged_s, since_launch_s - startup_s)


def by_drift(log: Log, iterations: float, pace_cv: float) -> tuple[float, float]:
    """Return the forecast finish in seconds and the standard deviation of its logarithm.

    The drift method (random walk with drift; Hyndman & Athanasopoulos, Forecasting: Principles and
    Practice, 3rd ed., section 5.5, table 5.2). With the elapsed time ``e`` at ``m + 1`` entries,
    evenly spaced, and ``h`` intervals to go, the finish is ``e_last + h * drift`` with the standard
    deviation ``sigma * sqrt(h * (1 + h / m))``, where ``sigma`` is the spread of
    one interval's time. The drift is taken from the first entry on, so slow first iterations bias
    nothing. Few intervals tell little about ``sigma``: it is pooled with the prior figure
    ``pace_cv``. The log has two entries or more.
    """
    (first, first_s), (last, last_s) = log[0], log[-1]
    intervals = len(log) - 1
    pace = (last_s - first_s) / (last - first)
    step = (last - first) / intervals
    finish_s = last_s + max(0, iterations - last) * pace
    intervals_to_go = max(0.0, (iterations - last) / step)
    if pace <= 0 or intervals_to_go == 0:
        return max(finish_s, 1e-9), 0.0
    squares = sum(
        ((later_s - early_s) - pace * (later - early)) ** 2 * step / (later - early)
        for (early, early_s), (later, later_s) in pairwise(log)
    )
    sigma = spread(squares, intervals - 1, SpreadPrior(pace_cv * pace * step, _PRIOR_INTERVALS))
    sd_s = sigma * math.sqrt(intervals_to_go * (1 + intervals_to_go / intervals))
    return finish_s, sd_s / finish_s


def _is_done(progress: Log, iterations: int | None) -> bool:
    """Return whether the launch has done all its iterations: its time is known by then."""
    return bool(progress) and iterations is not None and progress[-1][0] >= iterations


@dataclass(frozen=True)
class ProjectionStopper(EarlyStopper):
    """Stops a launch that cannot come in under a limit.

    ``iterations`` is the number that a run does; ``None`` if that is not known. Where a projection
    does not follow from a log, its height and its standard deviation are rough guesses.
    """

    limit: Limit
    noise: Noise
    iterations: int | None

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        iterations = self.iterations
        if _is_done(progress, iterations):
            return GoOn(progress[-1][1])
        if not progress:
            if self.noise.startup_s is None:
                return GoOn()
            presumed_s = since_launch_s - PATIENCE * self.noise.startup_s
            if not self._exceeds(presumed_s):
                return GoOn()
            return Stopped(0.0, 1.5 * presumed_s, 0.0, None, log_sd=1.0, rule=WHOLE_LAUNCH)
        bound_s = elapsed_bound(progress, since_launch_s, startup_s)
        verdict: Verdict = GoOn()
        if iterations is not None:
            rule = self._by_forecast if len(progress) >= 2 else self._by_bounds
            verdict = rule(progress, iterations, bound_s)
        if isinstance(verdict, GoOn) and self._exceeds(bound_s):  # longer than the limit already
            verdict = Stopped(bound_s, bound_s * 1.2, bound_s, None, log_sd=0.5, rule=ELAPSED)
        return verdict

    def in_window(self) -> ProjectionStopper:
        # The spread is that of single iterations, not of intervals of the log.
        pace_cv = self.noise.pace_cv * math.sqrt(self.noise.interval or 1)
        return replace(self, noise=replace(self.noise, pace_cv=pace_cv, interval=1))

    def _exceeds(self, low_s: float, forecast_sd: float = 0.0) -> bool:
        """Return whether the lower end of a projection lies above the limit."""
        if low_s <= 0:
            return False
        sd = math.hypot(self.noise.run_sd, self.limit.log_se, forecast_sd)
        return math.log(low_s) - Z * sd > math.log(self.limit.seconds * self.limit.factor)

    def _by_forecast(self, progress: Log, iterations: int, bound_s: float) -> Verdict:
        """Judge by two entries or more: by the drift, then as if the overdue entry came now."""
        finish_s, sd = by_drift(progress, iterations, self.noise.pace_cv)
        if self._exceeds(finish_s, sd):
            spread = math.exp(Z * sd)
            return Stopped(bound_s, finish_s, finish_s / spread, finish_s * spread, sd, "drift")
        (first, first_s), (last, _) = progress[0], progress[-1]
        coming = last + (self.noise.interval or math.inf)
        if coming <= iterations:
            pace = max(0.0, bound_s - first_s) / (coming - first)
            late_s = bound_s + (iterations - coming) * pace
            if self._exceeds(late_s):
                return Stopped(bound_s, late_s, late_s, high_s=None, log_sd=0.3, rule="late")
        return GoOn(finish_s)

    def _by_bounds(self, progress: Log, iterations: int, bound_s: float) -> Verdict:
        """Judge by one entry, or by the absence of the next one: by the least the run can take."""
        done, elapsed_s = progress[-1]
        if not done:  # wall time counts no iterations
            return GoOn()
        most_done = [(done, elapsed_s)]
        if self.noise.interval and done + self.noise.interval < iterations:
            most_done.append((done + self.noise.interval, bound_s))

        def finish_s(entry: tuple[int, float], first_costs: float) -> float:
            return entry[1] * (iterations + first_costs) / (entry[0] + first_costs)

        slowest = max(most_done, key=lambda entry: finish_s(entry, self.noise.warm_up_iterations))
        low_s = finish_s(slowest, self.noise.warm_up_iterations)
        if not self._exceeds(low_s):
            return GoOn()
        typical_s = finish_s(slowest, self.noise.warm_up_typical)
        return Stopped(bound_s, typical_s, low_s, high_s=None, log_sd=0.15, rule="pace")


@dataclass(frozen=True)
class TimeLimitStopper(EarlyStopper):
    """Stops a launch once it has taken ``limit_s`` of its own elapsed time for certain.

    With ``iterations`` a launch that has done them is not stopped: what it does after its training
    is not part of its elapsed time. With ``presumed_startup_s`` a launch whose log has no entry yet
    counts as if its start-up took that.
    """

    limit_s: float
    iterations: int | None = None
    presumed_startup_s: float | None = None

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        if _is_done(progress, self.iterations):
            return GoOn(progress[-1][1])
        if not progress and startup_s is None:
            startup_s = self.presumed_startup_s
        bound_s = elapsed_bound(progress, since_launch_s, startup_s)
        if bound_s <= self.limit_s:
            return GoOn()
        return Stopped(bound_s, bound_s, bound_s, high_s=None, log_sd=0.5, rule=CUT)


@dataclass(frozen=True)
class PaceKnown(EarlyStopper):
    """Stops a launch, whatever its pace, once its log shows the pace well; see :func:`by_drift`.

    Nobody knows how long the launch takes after its iterations: as long as the other side does, or
    slower by as much as its iterations are. The projection lies in the middle.
    """

    iterations: int
    end_s: float  # how long the other side takes after its iterations
    end_iterations: float  # how many of its iterations that equals (`throughput.at_usual_pace`)
    log_sd: float  # the standard deviation that the logarithm of the finish may have
    most_s: float  # after this much of its own time it is stopped, whatever that deviation is

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        if len(progress) < 2 or _is_done(progress, self.iterations):
            return GoOn()
        slowest_s, sd = by_drift(progress, self.iterations + self.end_iterations, INTERVALS.sd)
        finish_s = by_drift(progress, self.iterations, INTERVALS.sd)[0] + self.end_s
        bound_s = elapsed_bound(progress, since_launch_s, startup_s)
        low_s, high_s = sorted((max(finish_s, bound_s), max(slowest_s, bound_s)))
        middle_s = math.sqrt(low_s * high_s)
        if sd > self.log_sd and bound_s <= self.most_s:
            return GoOn(middle_s)
        return Stopped(bound_s, middle_s, low_s, high_s, sd, PACE)


@dataclass(frozen=True)
class FirstOf(EarlyStopper):
    """Stops a launch as soon as one of several stoppers does, but not before ``after_s``.

    A window is judged at once.
    """

    stoppers: tuple[EarlyStopper, ...]
    after_s: float = 0.0

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        verdict: Verdict = GoOn()
        if since_launch_s < self.after_s:
            return verdict
        for stopper in self.stoppers:
            verdict = stopper(progress, since_launch_s, startup_s)
            if isinstance(verdict, Stopped):
                break
        return verdict

    def in_window(self) -> FirstOf:
        return FirstOf(tuple(stopper.in_window() for stopper in self.stoppers))
