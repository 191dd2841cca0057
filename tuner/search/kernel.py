"""The prior of the search: what it expects of times before it has measured, and how alike they are.

``f(x)``, the logarithm of the elapsed time, is taken as

    prior(x) + one effect a knob + an effect of the core demand + an interaction + roughness

an additive kernel (Duvenaud et al., Additive Gaussian Processes, NIPS 2011) of Matern-5/2
functions of the knobs' octaves (one figure for all pairs of an unordered choice), a product
of all, and a short exponential kernel for kinks that the smooth parts miss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tuner.search.grid import Floats, Grid, Points, Rows

#: Variance of the level of all times, in squared logarithms: large, as nobody knows the level.
_LEVEL_VAR = 1.0

#: Columns of the hyperparameters after those of the knobs.
_ROUGH, _DEMAND_LENGTH, _NOISE = -3, -2, -1


@dataclass(frozen=True)
class Prior:
    """Medians and log standard deviations of log-normal hyperpriors, chosen on surfaces.

    The figures are effects on the logarithm of the time (0.25: about 25 %).
    """

    main: tuple[float, float] = (0.25, 0.9)  # of one knob
    demand: tuple[float, float] = (0.2, 0.7)  # of the core demand
    product: tuple[float, float] = (0.12, 0.9)  # of all knobs together
    length: tuple[float, float] = (1.6, 0.5)  # octaves over which an effect changes
    length_share: float = 0.35  # of the knob's span, where that is longer
    demand_length: tuple[float, float] = (1.5, 0.4)
    over_slope: tuple[float, float] = (0.35, 0.25)  # per octave of demand over the cores
    under_slope: tuple[float, float] = (-0.15, 0.2)  # per octave of demand below the cores
    under_slope_of_ranks: tuple[float, float] = (-0.35, 0.2)  # if the ranks are tuned
    rough: tuple[float, float] = (0.03, 0.7)
    rough_length: float = 0.5  # octaves
    noise: tuple[float, float] = (0.03, 0.5)  # of a single run
    noise_over: float = 1.0  # the noise grows by this share per octave over the cores


PRIOR = Prior()

#: For windows the prior of the noise is wide: the windows of a steady job differ far less than
#: launches do, those of another job as much.
WINDOW_PRIOR = Prior(noise=(PRIOR.noise[0], 1.2))


class Kernel:
    """The prior mean, covariance and noise over a grid.

    Hyperparameters are rows of logarithms: one effect a knob, demand, product, one length a
    knob, roughness, the demand's length, noise.
    """

    def __init__(self, grid: Grid, prior: Prior = PRIOR) -> None:
        if any(knob.role == "ranks" for knob in grid.space.knobs):
            prior = replace(prior, under_slope=prior.under_slope_of_ranks)
        self.grid, self.prior = grid, prior
        self._closeness: list[Floats] = []  # for each knob how far its values share a kink
        for knob, octaves in zip(grid.space.knobs, grid.octaves, strict=True):
            if octaves is None:
                close = 0.5 + 0.5 * np.eye(len(knob.values))
            else:
                close = np.exp(-np.abs(octaves[:, None] - octaves[None]) / prior.rough_length)
            to_absence = 0.5 if octaves is None else 0.0
            self._closeness.append(_with_absence(close, to_absence) if knob.may_lack else close)

    def hyperprior(self) -> tuple[Floats, Floats]:
        """Return the means and standard deviations of the hyperparameters."""
        p = self.prior
        pairs = [p.main] * len(self.grid.sizes) + [p.demand, p.product]
        for octaves in self.grid.octaves:
            span = 1.0 if octaves is None else float(np.ptp(octaves))
            pairs.append((max(p.length[0], p.length_share * span), p.length[1]))
        middles, spreads = np.array([*pairs, p.rough, p.demand_length, p.noise]).T
        return np.log(middles), spreads

    def mean(self, demand: Floats) -> Floats:
        """Return the prior mean: full cores are fastest, and each octave off them costs."""
        over, under = np.maximum(demand, 0), np.minimum(demand, 0)
        return np.asarray(self.prior.over_slope[0] * over + self.prior.under_slope[0] * under)

    def noise_scale(self, demand: Floats) -> Floats:
        """Return how many times as much runs differ as where the cores are not oversubscribed."""
        return np.asarray(1 + self.prior.noise_over * np.maximum(demand, 0))

    def noise_var(self, theta: Floats) -> Floats:
        """Return the variance of a single run where the cores are not oversubscribed."""
        return np.asarray(np.exp(2 * theta[:, _NOISE]))

    def tables(self, theta: Floats) -> list[Floats]:
        """Return for each knob the correlations of its values: (draws, values, values)."""
        knobs = len(self.grid.sizes)
        tables: list[Floats] = []
        for j, octaves in enumerate(self.grid.octaves):
            length = np.exp(theta[:, knobs + 2 + j])[:, None, None]
            shared = np.exp(-2.0 / length)  # the correlation of alternatives, usually a third
            if octaves is None:
                size = int(self.grid.sizes[j]) + self.grid.space.knobs[j].may_lack
                tables.append(shared + (1 - shared) * np.eye(size)[None])
                continue
            distance = np.abs(octaves[:, None] - octaves[None, :])[None]
            smooth = _matern52(distance / length)
            if self.grid.space.knobs[j].may_lack:
                # Not to exist, or to be left out, is an alternative to every number.
                smooth = shared + (1 - shared) * _with_absence(smooth, 0.0)
            tables.append(smooth)
        return tables

    def covariance(self, theta: Floats, tables: list[Floats], a: Points, b: Points) -> Floats:
        """Return the prior covariance of ``f`` at two lists of points: (draws, a, b)."""
        knobs = len(self.grid.sizes)
        total = np.full((len(theta), len(a.demand), len(b.demand)), _LEVEL_VAR)
        product = np.ones_like(total)
        closeness = np.ones(total.shape[1:])
        for j in range(knobs):
            left, right = a.levels[:, j], b.levels[:, j]
            alike = tables[j][:, left][:, :, right]
            total += np.exp(2 * theta[:, j])[:, None, None] * alike
            product *= alike
            closeness *= self._closeness[j][left][:, right]
        total += np.exp(2 * theta[:, knobs + 1])[:, None, None] * product
        total += np.exp(2 * theta[:, _ROUGH])[:, None, None] * closeness[None]
        if self.grid.has_roles:
            length = np.exp(theta[:, _DEMAND_LENGTH])[:, None, None]
            smooth = _matern52(np.abs(a.demand[:, None] - b.demand[None, :])[None] / length)
            over = np.multiply.outer(np.maximum(a.demand, 0), np.maximum(b.demand, 0))
            under = np.multiply.outer(np.minimum(a.demand, 0), np.minimum(b.demand, 0))
            total += np.exp(2 * theta[:, knobs])[:, None, None] * smooth
            total += (self.prior.over_slope[1] ** 2 * over)[None]
            total += (self.prior.under_slope[1] ** 2 * under)[None]
        return total

    def variance(self, theta: Floats, rows: Rows) -> Floats:
        """Return the prior variance of ``f`` at the rows: (draws, rows)."""
        knobs = len(self.grid.sizes)
        effects = [*range(knobs), knobs + 1, _ROUGH]
        of_all_rows = np.exp(2 * theta[:, effects]).sum(1) + _LEVEL_VAR
        total = np.repeat(of_all_rows[:, None], len(rows), axis=1)
        if self.grid.has_roles:
            demand = self.grid.demand(rows)
            total += np.exp(2 * theta[:, knobs])[:, None]
            total += (self.prior.over_slope[1] * np.maximum(demand, 0))[None] ** 2
            total += (self.prior.under_slope[1] * np.minimum(demand, 0))[None] ** 2
        return total


def _with_absence(table: Floats, alike: float) -> Floats:
    """Return the table with a row and a column for a knob that does not exist."""
    size = table.shape[-1] + 1
    wider = np.full((*table.shape[:-2], size, size), alike)
    wider[..., :-1, :-1] = table
    wider[..., -1, -1] = 1.0
    return wider


def _matern52(distance: Floats) -> Floats:
    """Return the Matern-5/2 correlation (Rasmussen & Williams, Gaussian Processes, eq. 4.17)."""
    r = math.sqrt(5.0) * distance
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))
