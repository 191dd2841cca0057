"""From the launches to a model of the space, and to the setting that is called best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.search.gaussian import Evidence, Gaussian
from tuner.search.history import CEILING, OUTLIER, Group, Groups, bounded, fastest, thinned
from tuner.search.kernel import Kernel
from tuner.search.space import Floats, Grid, Key, Rows

#: A model is made of so many of the fastest settings, and of so many of the others.
_FASTEST, _OTHERS = 110, 50


@dataclass(frozen=True)
class Incumbent:
    """The setting that is called best: its estimate as a logarithm, with a standard error.

    Settings are compared by their worth: the estimate with the :func:`price_of_cores`.
    """

    key: Key
    log_s: float
    se: float
    worth: float
    second: float  # the lowest worth among the other settings
    core_price: float  # by which they were compared


def fit(kernel: Kernel, groups: Groups, seed: int, ceiling: float = CEILING) -> Gaussian | None:
    """Fit the model; return ``None`` if no launch finished or was projected.

    A failure says nothing of speed: the regions of `tuner.search.regions` keep away from it. For
    the ``ceiling`` see :func:`tuner.search.history.bounded`.
    """
    estimates = [(g, e) for g in groups.values() if (e := g.estimate()) is not None]
    if not estimates:
        return None
    finished = [e[0] for g, e in estimates if g.finished]
    fastest = min(finished or [e[0] for _, e in estimates])
    estimates = thinned(estimates, lambda pair: pair[1][0], _FASTEST, _OTHERS)
    used = [g for g, _ in estimates]
    log_s, runs, var = np.array([e for _, e in estimates]).T
    log_ratio, more_var = bounded(log_s - fastest, ceiling)
    repeats_var, dof = _repeats(kernel.grid, used, kernel.prior.noise_over)
    data = Evidence(
        rows=kernel.grid.rows([g.key for g in used]),
        log_s=fastest + log_ratio,
        runs=runs,
        extra_var=var + more_var,
        repeats_var=repeats_var,
        repeats_dof=dof,
    )
    return Gaussian(kernel, data, seed)


def _repeats(grid: Grid, used: list[Group], noise_over: float) -> tuple[float, int]:
    """Return the pooled variance of repeats, in units of the noise scale, and its freedoms."""
    squares, dof = 0.0, 0
    for group in used:
        middle = float(np.median(group.finished)) if group.finished else 0.0
        kept = [x for x in group.finished if abs(x - middle) <= OUTLIER]
        if len(kept) < 2:
            continue
        over = max(0.0, float(grid.demand(grid.rows([group.key]))[0]))
        mean = float(np.mean(kept))
        squares += sum(((x - mean) / (1 + noise_over * over)) ** 2 for x in kept)
        dof += len(kept) - 1
    return (squares / dof if dof else 0.0), dof


def incumbent(model: Gaussian, groups: Groups, core_price: float = 0.0) -> Incumbent | None:
    """Return the setting with the lowest shrunk mean among those that ran to the end.

    Args:
        model: What the launches say.
        groups: The launches.
        core_price: The share that is added for each octave of cores asked for beyond what there is.
    """
    grid = model.kernel.grid
    keys = fastest({key: group for key, group in groups.items() if group.finished})
    if not keys:
        return None
    rows = grid.rows(keys)
    mean, se = model.predict(rows)
    worth = mean + price_of_cores(grid, rows, core_price)
    best = int(np.argmin(worth))
    others = np.delete(worth, best)
    second = float(others.min()) if len(others) else float(worth[best]) + 0.3
    return Incumbent(
        keys[best], float(mean[best]), float(se[best]), float(worth[best]), second, core_price
    )


def price_of_cores(grid: Grid, rows: Rows, core_price: float) -> Floats:
    """Return the logarithm that is added for cores that a row asks for beyond what there is.

    It is the share ``core_price`` for each octave.
    """
    return np.asarray(core_price * np.maximum(grid.demand(rows), 0.0))
