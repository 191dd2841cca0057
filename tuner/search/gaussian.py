"""A small Gaussian process for the logarithm of elapsed times over a grid of settings.

The hyperparameters are not fitted to a point but averaged over: a pool of draws from their
priors, refined about the best, weighted by the marginal likelihood (with few observations the
likelihood is flat, and a single best fit is far too sure of itself).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.search.grid import Floats, Grid, Key, Rows
from tuner.search.kernel import Kernel
from tuner.search.launch_groups import OUTLIER, Group, Groups, fastest

_JITTER = 1e-8

#: The number of draws of the hyperparameters at first, in each refinement, and at the end.
_POOL, _REFINED, _KEPT = 32, 20, 6

#: Joint draws of the posterior that chances and intervals are made of.
_DRAWS = 1000

#: Settings that are five times slower than the best (a logarithm) and more count about alike.
CEILING = 1.6

#: A model is made of this many of the fastest settings, and of this many of the others.
_FASTEST, _OTHERS = 110, 50


@dataclass(frozen=True)
class Evidence:
    """The measurements that a model is conditioned on, with one entry for each setting."""

    rows: Rows
    log_s: Floats  # means of runs
    runs: Floats  # how many runs each is the mean of
    extra_var: Floats  # variance beside that of the runs
    repeats_var: float = 0.0  # pooled variance of repeats, in units of the noise scale
    repeats_dof: int = 0


class Gaussian:
    """The posterior of ``f`` given the data."""

    def __init__(self, kernel: Kernel, data: Evidence, seed: int) -> None:
        self.kernel, self.data = kernel, data
        self._points = kernel.grid.points(data.rows)
        residual = data.log_s - kernel.mean(self._points.demand)
        self._level = float(np.min(residual)) + 0.3  # most settings are slower than the fastest
        self._residual = residual - self._level
        self._scale = kernel.noise_scale(self._points.demand)
        self._theta, self._weight = self._draws(np.random.default_rng(seed))
        self._tables = kernel.tables(self._theta)
        self._inverse = np.linalg.inv(self._noisy(self._theta, self._tables))
        self._alpha = (self._inverse @ self._residual[None, :, None])[:, :, 0]

    def _draws(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the best draws of the hyperparameters, and their weights."""
        middle, spread = self.kernel.hyperprior()
        theta = middle + spread * rng.standard_normal((_POOL, len(middle)))
        theta[0] = middle
        score = self._score(theta, middle, spread)
        for step in (0.5, 0.25):  # as a share of the prior's spread
            best = np.argsort(-score)[:5]
            new = np.repeat(theta[best], _REFINED // 5, axis=0)
            new = new + step * spread * rng.standard_normal(new.shape)
            theta = np.concatenate([theta[best], new])
            score = np.concatenate([score[best], self._score(new, middle, spread)])
        order = np.argsort(-score)[:_KEPT]
        weight = np.exp(np.clip(score[order] - score[order[0]], -8, 0))
        return theta[order], weight / weight.sum()

    def _noisy(self, theta: Floats, tables: list[Floats]) -> Floats:
        """Return the observations' covariance for each draw."""
        covariance = self.kernel.covariance(theta, tables, self._points, self._points)
        single = self.kernel.noise_var(theta)[:, None] * (self._scale**2)[None]
        diagonal = np.arange(len(self._scale))
        covariance[:, diagonal, diagonal] += (
            single / self.data.runs[None] + self.data.extra_var[None] + _JITTER
        )
        return covariance

    def _score(self, theta: Floats, middle: Floats, spread: Floats) -> Floats:
        """Return the log posterior density of hyperparameters (Rasmussen & Williams, eq. 2.30)."""
        root = np.linalg.cholesky(self._noisy(theta, self.kernel.tables(theta)))
        residual = np.broadcast_to(self._residual[None, :, None], (*root.shape[:2], 1))
        whitened = np.linalg.solve(root, residual)[:, :, 0]
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        score = -0.5 * (whitened**2).sum(1) - log_root
        if self.data.repeats_dof:
            single = self.kernel.noise_var(theta)
            misfit = np.log(single) + self.data.repeats_var / single
            score = score - 0.5 * self.data.repeats_dof * misfit
        return np.asarray(score - 0.5 * (((theta - middle) / spread) ** 2).sum(1))

    def predict(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation of ``f`` at the rows."""
        points = self.kernel.grid.points(rows)
        cross = self.kernel.covariance(self._theta, self._tables, points, self._points)
        mean = (cross @ self._alpha[:, :, None])[:, :, 0]
        explained = ((cross @ self._inverse) * cross).sum(2)
        var = np.maximum(self.kernel.variance(self._theta, rows) - explained, 1e-10)
        middle = self._weight @ mean  # over the draws of the hyperparameters
        total = self._weight @ (var + mean**2) - middle**2
        sd = np.sqrt(np.maximum(total, 1e-12))
        return middle + self._level + self.kernel.mean(points.demand), sd

    def noise_sd(self, rows: Rows) -> Floats:
        """Return the standard deviation of a single run at the rows."""
        single = math.sqrt(float(self._weight @ self.kernel.noise_var(self._theta)))
        return single * self.kernel.noise_scale(self.kernel.grid.demand(rows))

    def sample(self, rows: Rows, count: int, rng: np.random.Generator) -> Floats:
        """Draw ``f`` at all rows jointly: (count, rows)."""
        theta, tables = self._theta, self._tables
        points = self.kernel.grid.points(rows)
        cross = self.kernel.covariance(theta, tables, points, self._points)
        prior_covariance = self.kernel.covariance(theta, tables, points, points)
        prior_mean = self._level + self.kernel.mean(points.demand)
        mean = (cross @ self._alpha[:, :, None])[:, :, 0] + prior_mean[None]
        covariance = prior_covariance - cross @ self._inverse @ cross.transpose(0, 2, 1)
        diagonal = np.arange(len(rows))
        covariance[:, diagonal, diagonal] += 1e-6
        root = np.linalg.cholesky(covariance)
        draws = rng.choice(len(self._weight), size=count, p=self._weight)  # of hyperparameters
        normal = rng.standard_normal((count, len(rows)))
        return np.asarray(mean[draws] + np.einsum("cij,cj->ci", root[draws], normal))

    def chances(self, rows: Rows, most: float, seed: int) -> list[float]:
        """Return for each row but the first how likely ``f`` exceeds that there by at most this."""
        sample = self.sample(rows, _DRAWS, np.random.default_rng(seed))
        return [float(share) for share in (sample[:, 1:] - sample[:, :1] <= most).mean(0)]

    def ratio(self, rows: Rows, seed: int) -> tuple[float, float, float]:
        """Return the time at the first of two rows over that at the second: median, low, high.

        The interval is one of 95 %.
        """
        sample = self.sample(rows, _DRAWS, np.random.default_rng(seed))
        ratios = np.exp(sample[:, 0] - sample[:, 1])
        low, middle, high = np.quantile(ratios, (0.025, 0.5, 0.975))
        return float(middle), float(low), float(high)


def fit(kernel: Kernel, groups: Groups, seed: int, ceiling: float = CEILING) -> Gaussian | None:
    """Fit the model; return ``None`` if no launch finished or was projected.

    A failure says nothing of speed: the regions of `tuner.search.regions` keep away from it. A
    setting counts as slower than the fastest by little more than the ``ceiling``, a logarithm.
    """
    estimates = [(g, e) for g in groups.values() if (e := g.estimate()) is not None]
    if not estimates:
        return None
    finished = [e[0] for g, e in estimates if g.finished]
    fastest_log_s = min(finished or [e[0] for _, e in estimates])
    if len(estimates) > _FASTEST + _OTHERS:
        estimates.sort(key=lambda pair: pair[1][0])
        step = math.ceil((len(estimates) - _FASTEST) / _OTHERS)
        estimates = estimates[:_FASTEST] + estimates[_FASTEST::step]
    chosen_groups = [g for g, _ in estimates]
    log_s, runs, var = np.array([e for _, e in estimates]).T
    excess = log_s - fastest_log_s - ceiling  # a ratio above the ceiling counts as little above it
    loss = np.where(excess > 0, ceiling + 0.2 * np.minimum(2.0, excess), log_s - fastest_log_s)
    repeats_var, dof = _repeats(kernel.grid, chosen_groups, kernel.prior.noise_over)
    data = Evidence(
        rows=kernel.grid.rows([g.key for g in chosen_groups]),
        log_s=fastest_log_s + loss,
        runs=runs,
        extra_var=var + np.where(excess > 0, 0.15**2, 0.0),  # that loss is only a rough one
        repeats_var=repeats_var,
        repeats_dof=dof,
    )
    return Gaussian(kernel, data, seed)


def _repeats(grid: Grid, groups: list[Group], noise_over: float) -> tuple[float, int]:
    """Return the pooled variance of repeats, in units of the noise scale, and its freedoms."""
    squares, dof = 0.0, 0
    for group in groups:
        middle = float(np.median(group.finished)) if group.finished else 0.0
        usual = [x for x in group.finished if abs(x - middle) <= OUTLIER]
        if len(usual) < 2:
            continue
        over = max(0.0, float(grid.demand(grid.rows([group.key]))[0]))
        mean = float(np.mean(usual))
        squares += sum(((x - mean) / (1 + noise_over * over)) ** 2 for x in usual)
        dof += len(usual) - 1
    return (squares / dof if dof else 0.0), dof


@dataclass(frozen=True)
class Incumbent:
    """The setting that is called best: its estimate as a logarithm, with a standard error."""

    key: Key
    log_s: float
    se: float
    second_log_s: float  # the lowest estimate of another setting; without any 35 % above this one


def incumbent(model: Gaussian, groups: Groups) -> Incumbent | None:
    """Return the setting with the lowest shrunk mean among those that ran to the end."""
    keys = fastest({key: group for key, group in groups.items() if group.finished})
    if not keys:
        return None
    mean, se = model.predict(model.kernel.grid.rows(keys))
    best = int(np.argmin(mean))
    other_means = np.delete(mean, best)
    second_log_s = float(other_means.min()) if len(other_means) else float(mean[best]) + 0.3
    return Incumbent(keys[best], float(mean[best]), float(se[best]), second_log_s)
