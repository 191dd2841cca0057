"""From the launches to a model of the space, and to the setting that is called best."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuner.search.gaussian import Data, Effort, Gaussian
from tuner.search.history import Group, Groups
from tuner.search.kernel import Kernel
from tuner.search.space import Flags, Floats, Grid, Key, Rows

#: Five times slower than the best or fifty: it is not there. A logarithm.
_CEILING = 1.6

#: With more settings than this the far field is thinned, and fewer draws are looked at.
_MANY, _SOME = 160, 60


@dataclass(frozen=True)
class Doubt:
    """When a lone run is not believed: standard deviations from what its neighbours say.

    A slow one may be the machine's doing, a fast one a lucky draw.
    """

    slow_sds: float = 1.7
    early_sds: float = 3.0  # the same as long as few settings are known
    few: int = 10
    fast_sds: float = 3.5
    least: float = 0.3  # logarithm: differences below this are ordinary


@dataclass(frozen=True)
class Fit:
    """The model, the settings it rests on, and those that look too fast to be true."""

    model: Gaussian
    used: tuple[Group, ...]
    too_fast: tuple[Key, ...]


@dataclass(frozen=True)
class Incumbent:
    """The setting that is called best: its estimate as a logarithm, with a standard error.

    Settings are compared by their worth: the estimate with what their cores cost (:func:`dear`).
    """

    key: Key
    log_s: float
    se: float
    worth: float
    second: float  # the lowest worth among the other settings
    thrift: float  # by which they were compared


def fit(kernel: Kernel, groups: Groups, doubt: Doubt, seed: int) -> Fit | None:
    """Fit the model; ``None`` where nothing has finished or was projected.

    A failure says nothing of speed: the regions of `tuner.search.regions` keep away from it.
    """
    used, data, fastest = _data(kernel, groups)
    if not used:
        return None
    effort = Effort(16, 10, 4) if len(used) > _SOME else Effort()
    model = Gaussian(kernel, data, effort, seed)
    mean, sd = model.left_out()
    doubted = _doubted(used, data.log_s - mean, mean, sd, fastest=fastest, doubt=doubt)
    if doubted.any():
        widened = replace(data, extra_var=data.extra_var + np.where(doubted, 0.6**2, 0.0))
        model = Gaussian(kernel, widened, effort, seed)
    return Fit(model, tuple(used), _too_fast(used, mean - data.log_s, sd, doubt))


def _data(kernel: Kernel, groups: Groups) -> tuple[list[Group], Data, float]:
    """The settings with an estimate, what is known of them, and the fastest that finished."""
    noise_sd = kernel.prior.noise[0] * 2
    known = [(g, e) for g in groups.values() if (e := g.estimate(noise_sd)) is not None]
    finished = [e[0] for g, e in known if g.finished]
    fastest = min(finished or [e[0] for _, e in known], default=0.0)
    known = _thinned(known)
    log_s = np.array([e[0] for _, e in known])
    far = log_s - (fastest + _CEILING)
    capped = far > 0
    used = [g for g, _ in known]
    var, dof = _repeats(kernel.grid, used, kernel.prior.noise_over)
    data = Data(
        rows=kernel.grid.rows([g.key for g in used]),
        log_s=np.where(capped, fastest + _CEILING + 0.2 * np.minimum(2.0, far), log_s),
        runs=np.array([e[1] for _, e in known]),
        extra_var=np.array([e[2] for _, e in known]) + np.where(capped, 0.15**2, 0.0),
        repeats_var=var,
        repeats_dof=dof,
    )
    return used, data, fastest


_Known = list[tuple[Group, tuple[float, float, float]]]


def _thinned(known: _Known) -> _Known:
    """What bears on the best, and of a long tail behind it a part."""
    if len(known) <= _MANY:
        return known
    ordered = sorted(known, key=lambda each: each[1][0])
    head, tail = ordered[:110], ordered[110:]
    return head + tail[:: max(1, len(tail) // 50)]


def _repeats(grid: Grid, used: list[Group], noise_over: float) -> tuple[float, int]:
    """Pooled variance of repeated runs, in units of the noise scale, and its degrees of freedom."""
    squares, dof = 0.0, 0
    for group in used:
        middle = float(np.median(group.finished)) if group.finished else 0.0
        kept = [x for x in group.finished if abs(x - middle) <= 0.25]
        if len(kept) < 2:
            continue
        over = max(0.0, float(grid.demand(grid.rows([group.key]))[0]))
        mean = float(np.mean(kept))
        squares += sum(((x - mean) / (1 + noise_over * over)) ** 2 for x in kept)
        dof += len(kept) - 1
    return (squares / dof if dof else 0.0), dof


def _doubted(
    used: list[Group], gap: Floats, mean: Floats, sd: Floats, *, fastest: float, doubt: Doubt
) -> Flags:
    """Lone runs that are far slower than a model expects that takes them for contenders."""
    lone = np.array([g.launches == 1 and not g.failures for g in used])
    sds = doubt.slow_sds if len(used) >= doubt.few else doubt.early_sds
    slow = (gap > sds * sd) & (gap > doubt.least) & (gap < 1.3)
    return np.asarray(lone & slow & (mean < fastest + 0.15))


def _too_fast(used: list[Group], gap: Floats, sd: Floats, doubt: Doubt) -> tuple[Key, ...]:
    """Single runs far faster than expected: looked at again before they are believed."""
    if len(used) < 5:
        return ()
    least = np.maximum(doubt.fast_sds * sd, doubt.least)
    return tuple(
        group.key
        for group, surprising in zip(used, gap > least, strict=True)
        if surprising and group.finished and group.launches == 1
    )


def incumbent(fitted: Fit, grid: Grid, caution: float, thrift: float = 0.0) -> Incumbent | None:
    """The lowest shrunk mean, its doubt added, among the settings that ran to the end.

    Args:
        fitted: The model and what it rests on.
        grid: The space.
        caution: How many standard errors are added.
        thrift: The share that is added for each octave of cores asked for beyond what there is.
    """
    finished = [g for g in fitted.used if g.finished]
    keys = [g.key for g in finished if g.key not in fitted.too_fast]
    keys = keys or [g.key for g in finished]
    if not keys:
        return None
    rows = grid.rows(keys)
    mean, se = fitted.model.predict(rows)
    worth = mean + dear(grid, rows, thrift)
    best = int(np.argmin(worth + caution * se))
    others = np.delete(worth, best)
    second = float(others.min()) if len(others) else float(worth[best]) + 0.3
    return Incumbent(
        keys[best], float(mean[best]), float(se[best]), float(worth[best]), second, thrift
    )


def dear(grid: Grid, rows: Rows, thrift: float) -> Floats:
    """What is held against each row for the cores that it asks for beyond what there is.

    A logarithm: the share ``thrift`` for each octave.
    """
    return np.asarray(thrift * np.maximum(grid.demand(rows), 0.0))
