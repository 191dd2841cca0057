"""When a running launch will have finished, by the log that it has written so far. Pure.

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
from itertools import pairwise

from tuner.stats.noise import Prior, spread

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
    sigma = spread(squares, intervals - 1, Prior(pace_cv * pace * step, _PRIOR_INTERVALS))
    return finish, sigma * math.sqrt(to_go * (1 + to_go / intervals)) / finish


def if_it_came_now(
    log: Sequence[tuple[int, float]], coming: int, iterations: int, now_s: float
) -> float:
    """The finish, s, if the entry of iteration ``coming``, which is overdue, came now."""
    first, first_s = log[0]
    return now_s + (iterations - coming) * max(0.0, now_s - first_s) / (coming - first)
