"""While a trial runs: go on, or stop it? Pure: no clock, no files.

From two log entries on the finish is forecast (:func:`by_drift`), what is known of an
interval's spread pooled with the noise model's figure.

With one entry only a bound is known. The work done is at most ``k`` iterations (those of the
entry, or those before the next one, which has not come yet) and the first iteration costs as
much as ``w`` later ones, at most: the finish is at least ``elapsed * (N + w) / (k + w)``.
Before any entry nothing is known but the time since the launch, and how long a setting starts
may depend on it: only a launch that takes longer than the limit and several usual start-ups is
stopped. So are those whose log is written at the end only.

A trial is stopped once the lower end of the projection exceeds the limit, where the lower end
allows for the forecast's error, for the spread of single runs about their setting's median
and for the incumbent's own uncertainty (independent errors of logarithms: variances add).

From two entries on it is forecast by the *drift method* (random walk with drift; Hyndman &
Athanasopoulos, Forecasting: Principles and Practice, 3rd ed., section 5.5, table 5.2). With the
elapsed time ``e`` at ``m + 1`` log entries, evenly spaced by ``d`` iterations, and ``h`` intervals
to go, the finish is ``e_last + h * drift`` with the standard deviation
``sigma * sqrt(h * (1 + h / m))``, where ``sigma`` is the spread of one interval's time. The
drift is taken from the first entry on, so the slow first iterations bias nothing. Few
intervals tell little about ``sigma``: it is pooled with a prior figure.

A log is (iteration, elapsed_s) of each entry, the oldest first, iterations strictly rising.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from tuner.model import Stopped
from tuner.stats.noise import SpreadPrior, spread

#: The prior figure for one interval's spread counts as this many intervals.
_PRIOR_INTERVALS = 3.0


def elapsed_bound(
    log: Sequence[tuple[int, float]], since_launch_s: float, startup_s: float | None
) -> float:
    """The least that the launch's own elapsed time can be now, s.

    Only what this launch has shown counts: before its first entry nobody knows how long it
    starts, as that may depend on the setting.
    """
    seen = log[-1][1] if log else 0.0
    return seen if startup_s is None else max(seen, since_launch_s - startup_s)


def shared_out(elapsed_s: float, done: int, iterations: int, first_costs: float) -> float:
    """The finish, s, of a run whose first ``done`` iterations took this long.

    ``first_costs``: the first iteration costs as much as so many later ones.
    """
    return elapsed_s * (iterations + first_costs) / (done + first_costs)


def by_drift(
    log: Sequence[tuple[int, float]], iterations: int, pace_cv: float
) -> tuple[float, float]:
    """The forecast finish in seconds and the standard deviation of its logarithm.

    Args:
        log: Two entries or more.
        iterations: How many the run will do.
        pace_cv: The prior figure: the relative spread of one interval's time.
    """
    (first, first_s), (last, last_s) = log[0], log[-1]
    intervals = len(log) - 1
    pace = (last_s - first_s) / (last - first)
    step = (last - first) / intervals
    finish = last_s + max(0, iterations - last) * pace
    to_go = max(0.0, (iterations - last) / step)
    if pace <= 0 or to_go == 0:
        return max(finish, 1e-9), 0.0
    squares = sum(
        ((later_s - early_s) - pace * (later - early)) ** 2 * step / (later - early)
        for (early, early_s), (later, later_s) in pairwise(log)
    )
    sigma = spread(squares, intervals - 1, SpreadPrior(pace_cv * pace * step, _PRIOR_INTERVALS))
    return finish, sigma * math.sqrt(to_go * (1 + to_go / intervals)) / finish


def if_it_came_now(
    log: Sequence[tuple[int, float]], coming: int, iterations: int, now_s: float
) -> float:
    """The finish, s, if the entry of iteration ``coming``, which is overdue, came now."""
    first, first_s = log[0]
    return now_s + (iterations - coming) * max(0.0, now_s - first_s) / (coming - first)


#: (iteration, elapsed_s) of the log so far, the oldest first, iterations strictly rising.
Log = Sequence[tuple[int, float]]

#: How many standard deviations the lower end lies below the projection.
Z = 1.75

#: A launch that has shown no entry may have started for so many usual start-ups.
_PATIENCE = 4.0


@dataclass(frozen=True)
class Noise:
    """How much runs of this job differ; the search learns it as the study goes on."""

    run_sd: float = 0.05  # of log elapsed_s of a run about its setting's median
    pace_cv: float = 0.05  # of one log interval's time, relative
    warm_up_iterations: float = 12.0  # the first iteration costs at most this many later ones
    warm_up_typical: float = 3.0  # and usually this many
    startup_s: float | None = None  # typical time from launch to the training's own clock zero
    interval: int | None = None  # iterations between entries, seen before


@dataclass(frozen=True)
class Limit:
    """What a trial is stopped against: ``factor`` times an estimate with a standard error."""

    seconds: float
    log_se: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True)
class GoOn:
    """The trial may still come in under the limit."""

    projection_s: float | None = None


Verdict = GoOn | Stopped


class EarlyStopper(Protocol):
    """What a running launch is held against."""

    def __call__(
        self, progress: Log, since_launch_s: float, startup_s: float | None, /
    ) -> Verdict: ...


@dataclass(frozen=True)
class ProjectionStopper:
    """Stops a trial that cannot win: :func:`judge` with all but the trial itself filled in."""

    limit: Limit
    noise: Noise
    iterations: int | None

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Whether the trial can still come in under the limit."""
        return judge(
            progress,
            self.iterations,
            since_launch_s=since_launch_s,
            startup_s=startup_s,
            limit=self.limit,
            noise=self.noise,
        )


@dataclass(frozen=True)
class TimeLimitStopper:
    """Stops a launch once it has taken ``limit_s`` of its own elapsed time for certain.

    With ``iterations`` a launch that has done them is left alone: what it does behind its
    training is none of its elapsed time.
    """

    limit_s: float
    iterations: int | None = None

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Whether the bound is below the limit yet."""
        if _is_done(progress, self.iterations):
            return GoOn(progress[-1][1])
        bound_s = elapsed_bound(progress, since_launch_s, startup_s)
        if bound_s <= self.limit_s:
            return GoOn()
        return Stopped(bound_s, bound_s, bound_s, None, 0.5, "cut")


@dataclass(frozen=True)
class _Bar:
    """The limit's logarithm, and what is allowed for errors on the way to it."""

    log_s: float
    z: float
    sd: float

    def exceeded(self, low_s: float, forecast_sd: float = 0.0) -> bool:
        return low_s > 0 and math.log(low_s) - self.z * math.hypot(self.sd, forecast_sd) > (
            self.log_s
        )


def judge(
    progress: Log,
    iterations: int | None,
    *,
    since_launch_s: float,
    startup_s: float | None,
    limit: Limit | None,
    noise: Noise,
    z: float = Z,
) -> Verdict:
    """Whether a running trial can still come in under the limit.

    Args:
        progress: The log so far.
        iterations: How many the run will do; ``None`` where unknown.
        since_launch_s: Wall time since the launch.
        startup_s: This launch's own start-up where it is known (from the first entry on).
        limit: ``None`` for a trial that must run to its end.
        noise: What is known of the job's spread.
        z: How many standard deviations the lower end lies below the projection.
    """
    if limit is None:
        return GoOn()
    if _is_done(progress, iterations):
        return GoOn(progress[-1][1])
    bar = _Bar(math.log(limit.seconds * limit.factor), z, math.hypot(noise.run_sd, limit.log_se))
    if not progress:
        return _by_patience(since_launch_s, bar, noise)
    bound = elapsed_bound(progress, since_launch_s, startup_s)
    verdict: Verdict = GoOn()
    if iterations is not None:
        rule = _by_forecast if len(progress) >= 2 else _by_bounds
        verdict = rule(progress, iterations, bound, bar, noise)
    if isinstance(verdict, GoOn) and bar.exceeded(bound):  # longer than the limit already
        return Stopped(bound, bound * 1.2, bound, None, 0.5, "elapsed")
    return verdict


def _is_done(progress: Log, iterations: int | None) -> bool:
    """True once it has trained to its end: its time is known, whatever it does behind that."""
    return bool(progress) and iterations is not None and progress[-1][0] >= iterations


def _by_patience(since_launch_s: float, bar: _Bar, noise: Noise) -> Verdict:
    """Before any entry: a limit on the whole launch, with ample room for the start-up."""
    if noise.startup_s is None:
        return GoOn()
    presumed = since_launch_s - _PATIENCE * noise.startup_s
    if not bar.exceeded(presumed):
        return GoOn()
    return Stopped(0.0, 1.5 * presumed, 0.0, None, 1.0, "whole launch")


def _by_forecast(progress: Log, iterations: int, bound: float, bar: _Bar, noise: Noise) -> Verdict:
    """From two entries on: the drift, then what an overdue entry says."""
    finish, sd = by_drift(progress, iterations, noise.pace_cv)
    if bar.exceeded(finish, sd):
        spread = math.exp(bar.z * sd)
        return Stopped(bound, finish, finish / spread, finish * spread, sd, "drift")
    late = _if_it_came_now(progress, iterations, bound, noise)
    if late is not None and bar.exceeded(late):
        return Stopped(bound, late, late, None, 0.3, "late")
    return GoOn(finish)


def _by_bounds(progress: Log, iterations: int, bound: float, bar: _Bar, noise: Noise) -> Verdict:
    """With one entry: the least that the run can take."""
    done, elapsed_s = progress[-1]
    low, typical = _spread_out(elapsed_s, done, iterations, noise)
    coming = _next_entry(done, noise)
    if coming is not None and coming < iterations:
        late, late_typical = _spread_out(bound, coming, iterations, noise)
        if late > low:
            low, typical = late, late_typical
    if not bar.exceeded(low):
        return GoOn()
    return Stopped(bound, typical, low, None, 0.15, "pace")


def _spread_out(elapsed_s: float, done: int, iterations: int, noise: Noise) -> tuple[float, float]:
    """The least and the usual finish of a run whose first ``done`` iterations took this long."""
    least = shared_out(elapsed_s, done, iterations, noise.warm_up_iterations)
    return least, shared_out(elapsed_s, done, iterations, noise.warm_up_typical)


def _next_entry(done: int, noise: Noise) -> int | None:
    """The iteration of the entry that comes next, where the earlier launches' logs tell."""
    return done + noise.interval if noise.interval else None


def _if_it_came_now(progress: Log, iterations: int, bound: float, noise: Noise) -> float | None:
    """The finish if the entry that is overdue came now."""
    coming = _next_entry(progress[-1][0], noise)
    if coming is None or coming > iterations:
        return None
    return if_it_came_now(progress, coming, iterations, bound)
