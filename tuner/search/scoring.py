"""The settings that may come next, with what each is expected to gain and to cost.

The gain is the knowledge gradient of one more run, each setting taken by itself (Frazier,
Powell & Dayanik, The Knowledge-Gradient Policy for Correlated Normal Beliefs, 2009, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tuner.model import Value
from tuner.search.gaussian import Gaussian, Incumbent
from tuner.search.grid import Flags, Floats, Grid, Rows
from tuner.search.kernel import Kernel
from tuner.search.launch_groups import Group, Groups, fastest, log_times
from tuner.search.regions import chance_of_failure, overdone, risk, ruled_out
from tuner.search.stopper import Noise
from tuner.stats.noise import RUNS


@dataclass(frozen=True)
class Options:
    """When the search ends: the user's limits."""

    trials: int = 50  # distinct settings
    budget_s: float | None = None  # of launches, wall time
    until: float = 0.01  # end once going on is expected to gain less than this share; 0: never
    precision: float = 0.02  # contenders are told apart as far as this share


#: At most this many launches are made of one setting.
MOST_REPEATS = 12

#: A search goes on while the next launch promises this share of `Options.until` or more.
_IDLE_SHARE = 0.05
#: If it promises less, the search ends once all other settings together are expected to gain less
#: than this many times `Options.until`.
_HIDDEN_SHARE = 1.5
#: A window costs little. So a search of windows ends once all other settings together are expected
#: to gain less than this many times `Options.until`, whatever the next window promises.
_HIDDEN_SHARE_OF_WINDOWS = 2.0

#: Repeats end once the expected regret is below this share of `Options.precision`.
_PRECISION_SHARE = 0.5

#: Candidates in a space that is too large to list: random rows, how many of them are kept (by the
#: prior mean), the fastest settings whose surroundings are added, and random steps about each.
_RANDOM, _KEPT, _CENTRES, _WALKS = 1500, 700, 4, 200

#: The best setting is compared with this many others, the likeliest to be better.
_LIKELY = 120

#: The standard deviation of the error of a smooth model beside the incumbent (a logarithm); and a
#: neighbour that it expects to be worse by more such deviations is not launched.
_MODEL_ERROR, _MOST_ERRORS = 0.15, 2.5

#: A setting that overfills the cores is slow for it if it lies this logarithm above the best;
#: settings that ask for more keep this share of their expected gain.
_OVERDONE_LOG, _OVERDONE_SHARE = 0.4, 0.1

#: A disturbed run is slower than others by a logarithm between these.
_DISTURBED = 0.4, 1.3

#: A window that is stopped early takes this share of a whole one: the iterations that are thrown
#: away after the switch, and those that show that it cannot win.
_CUT_SHARE = 0.5


def gradient(ahead: Floats, sd: Floats, noise_sd: Floats) -> Floats:
    """Return by how much one run of each setting is expected to lower the best mean's logarithm.

    The mean lies ``ahead`` of the best (negative: above it), with this standard deviation;
    ``noise_sd`` is that of a single run.
    """
    shift = sd * sd / np.sqrt(sd * sd + noise_sd**2)
    u = ahead / shift
    density = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    return np.asarray(shift * np.maximum(u * _normal_cdf(u) + density, 0.0))


_erf = np.vectorize(math.erf, otypes=[float])


def _normal_cdf(x: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * _erf(x / math.sqrt(2.0)))


def candidates(kernel: Kernel, groups: Groups, rng: np.random.Generator) -> Rows:
    """Return all rows of a small space; of a large one some, the launched ones among them."""
    grid = kernel.grid
    if grid.all is not None:
        return grid.all
    random_rows = grid.draw(rng, _RANDOM)
    parts = [random_rows[np.argsort(kernel.mean(grid.demand(random_rows)))[:_KEPT]]]
    log_s = log_times(groups)
    for key in sorted(log_s, key=lambda key: log_s[key])[:_CENTRES]:
        parts += _surroundings(grid, grid.row(key), rng)
    parts.append(grid.rows(fastest(groups)))
    rows = np.unique(grid.canonical(np.concatenate(parts)), axis=0)
    return np.asarray(rows[grid.allowed(rows)])


def _surroundings(grid: Grid, centre: Rows, rng: np.random.Generator) -> list[Rows]:
    """Return rows that move one knob, or two at random, or all knobs that requirements name."""
    one_moved = np.array([
        [*centre[:j], value, *centre[j + 1 :]]
        for j, size in enumerate(grid.sizes)
        for value in _nearby(int(size), int(centre[j]))
    ])  # fmt: skip
    two_moved = one_moved[rng.integers(len(one_moved), size=_WALKS)].copy()
    for row in two_moved:
        j = int(rng.integers(len(grid.sizes)))
        row[j] = rng.choice(_nearby(int(grid.sizes[j]), int(row[j])))
    # Few of these meet requirements: other values that do so together are added, all else equal.
    required = [knob.name in grid.space.requirements.names for knob in grid.space.knobs]
    if not any(required):
        return [one_moved, two_moved]
    return [one_moved, two_moved, np.where(required, grid.draw(rng, _WALKS), centre)]


def _nearby(size: int, index: int) -> list[int]:
    """Return the places one, two and four steps away, and the ends; all places of a short list."""
    steps = {value for step in (0, 1, 2, 4) for value in (index - step, index + step)}
    ends = {0, size - 1} if size > 4 else set(range(size))
    return sorted((steps | ends) & set(range(size)))


def beside(grid: Grid, rows: Rows, centre: Rows) -> Flags:
    """Return which rows lie one step of one knob away, or one step up or down of two core counts.

    Two counts go together: more workers may only help with more threads.
    """
    # A knob that ceases to exist did not move; one that comes to exist starts at its first value.
    moved = (rows != centre[None]) & grid.exist(rows)
    steps = np.where(moved, 1, 0)
    for j, knob in enumerate(grid.space.knobs):
        if knob.ordered:
            steps[:, j] *= grid.places[j][rows[:, j]] - grid.places[j][centre[j]]
    counts = np.array([knob.role is not None for knob in grid.space.knobs])
    together = (moved.sum(1) == 2) & (np.abs(steps[:, counts].sum(1)) == 2)
    return np.asarray(((moved.sum(1) == 1) | together) & (np.abs(steps) <= 1).all(1))


@dataclass(frozen=True)
class Live:
    """What a start and a switch cost in a study in which running jobs switch to other settings."""

    knobs: frozenset[str]  # those that change in a running job
    #: The setting that the running job was started with, a value a knob in the space's order
    #: (``None``: without the knob); ``None``: no job runs.
    job: tuple[Value | None, ...] | None
    startup_s: float
    switch_s: float
    share: float  # how long a window takes, s, for each unit of its setting's figure

    def fits(self, grid: Grid, rows: Rows) -> Flags:
        """Return which rows the running job can switch to: they differ in live knobs only."""
        if self.job is None:
            return np.zeros(len(rows), bool)
        is_fit = np.ones(len(rows), bool)
        for j, knob in enumerate(grid.space.knobs):
            if knob.name not in self.knobs:
                places = [i for i, value in enumerate(knob.values) if value == self.job[j]]
                is_fit &= np.isin(rows[:, j], places)
        return is_fit

    def cost_s(self, fits: Flags, mean: Floats, finishes: Floats, fails: Floats) -> Floats:
        """Return the expected seconds of each launch; see :meth:`ScoredCandidates.cost_s`.

        ``finishes`` and ``fails`` are chances; a failure costs a start, and the next job one more.
        """
        window_s = self.share * np.exp(mean) * (finishes + (1 - finishes) * _CUT_SHARE)
        entry_s = np.where(fits, self.switch_s, self.startup_s)
        return np.asarray(entry_s + window_s + 2 * fails * self.startup_s)


@dataclass(frozen=True)
class State:
    """The history as the search decides by it: launches by setting, model, incumbent, noise."""

    groups: Groups
    fit: Gaussian | None
    best: Incumbent | None
    noise: Noise
    is_full: bool  # as many settings were tried as `Options.trials` allows
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    live: Live | None = None


class ScoredCandidates:
    """The settings that may come next after a history, one a row of ``rows``.

    ``launched`` says which ran before. ``gain`` is by how much the logarithm of the best time is
    expected to fall. ``mean`` and ``sd`` are of the logarithm of a setting's time.
    """

    def __init__(self, options: Options, state: State, fitted: Gaussian, best: Incumbent) -> None:
        self._options, self._state, self._fitted, self._best = options, state, fitted, best
        self._grid = grid = fitted.kernel.grid
        groups = state.groups
        rows = candidates(fitted.kernel, groups, state.rng)
        launched_rows = {tuple(row) for row in grid.rows(list(groups)).tolist()}
        launched = np.array([tuple(row) in launched_rows for row in rows.tolist()])
        is_open = ~ruled_out(grid, rows, groups) | launched
        self.rows, self.launched = rows, launched = rows[is_open], launched[is_open]
        self.mean, self.sd = fitted.predict(rows)
        self._failure_chance = chance_of_failure(grid, rows, groups)
        if state.live is not None:  # there a failure ends the job
            self._failure_chance = np.maximum(self._failure_chance, risk(grid, rows, groups))
        keys = [grid.key(row) if ran else None for row, ran in zip(rows, launched, strict=True)]
        # A run of the incumbent gains if it shows that to be slower than the second.
        is_best = np.array([key == best.key for key in keys])
        ahead = np.where(is_best, self.mean - best.second_log_s, best.log_s - self.mean)
        self.gain = gradient(ahead, self.sd, fitted.noise_sd(rows)) * (1 - self._failure_chance)
        is_overdone = overdone(grid, rows, groups, best.log_s + _OVERDONE_LOG)
        self.gain[is_overdone & ~launched] *= _OVERDONE_SHARE
        self.gain[[key is not None and _is_enough(groups[key]) for key in keys]] = 0.0
        if state.is_full:
            self.gain[~launched] = 0.0
        if self._regret_of_finished() < _PRECISION_SHARE * options.precision:
            finished = [key is not None and bool(groups[key].finished) for key in keys]
            self.gain[finished] = 0.0

    def cost_s(self) -> Floats:
        """Return the expected seconds of a launch: the start-up, then the run.

        A run that is stopped early costs about a fifth of the best one.
        """
        best_log_s, sd = self._best.log_s, RUNS.sd
        finishes = _normal_cdf((best_log_s + sd - self.mean) / np.hypot(self.sd, sd))
        if self._state.live is not None:
            fits = self._state.live.fits(self._grid, self.rows)
            return self._state.live.cost_s(fits, self.mean, finishes, self._failure_chance)
        run_s = math.exp(best_log_s)
        start_s = self._state.noise.startup_s or 0.5 * run_s
        return np.asarray(start_s + run_s * (finishes + (1 - finishes) * 0.2))

    @property
    def all_tried(self) -> bool:
        """Whether no untried setting promises a gain."""
        return not (self.gain[~self.launched] > 0).any()

    def converged(self) -> bool:
        """Return whether the other settings are expected to gain too little to go on."""
        until, next_gain = self._options.until, float(self.gain.max())
        if self._state.live is not None:
            return self._hidden_gain() < _HIDDEN_SHARE_OF_WINDOWS * until
        return next_gain < _IDLE_SHARE * until and self._hidden_gain() < _HIDDEN_SHARE * until

    def _hidden_gain(self) -> float:
        """Return by how much, expected, the best of all other settings lies below the incumbent."""
        likely = self.rows[np.argsort(-self.gain)[:_LIKELY]]
        return self._regret(np.concatenate([self._grid.rows([self._best.key]), likely]))

    def _regret_of_finished(self) -> float:
        """Return by how much, expected, another setting that finished is better than the best."""
        best = self._best.key
        finished = {k: g for k, g in self._state.groups.items() if g.finished and k != best}
        if not finished:
            return math.inf  # alone, it is compared with settings that have not finished yet
        return self._regret(self._grid.rows([best, *fastest(finished, _LIKELY)]))

    def _regret(self, rows: Rows) -> float:
        """Return by how much, expected, the best of the rows lies below the first."""
        sample = self._fitted.sample(rows, 128, self._state.rng)
        return float(np.mean(sample[:, 0] - sample.min(1)))

    def neighbour(self) -> int | None:
        """Return the most promising of the incumbent's neighbours that have no sound run yet.

        A smooth model can be sure and wrong beside a kink, and one disturbed run misleads it: so no
        search ends before these are launched. An untried neighbour is left out if it is far worse
        even with the model's error, a tried one unless its only run may have been disturbed.
        """
        is_near = beside(self._grid, self.rows, self._grid.row(self._best.key))
        scores = (self._best.log_s - self.mean) / np.hypot(self.sd, _MODEL_ERROR)
        is_open, (least, most) = is_near & ~self.launched & (scores > -_MOST_ERRORS), _DISTURBED
        for place in np.flatnonzero(is_near & self.launched):
            group = self._state.groups[self._grid.key(self.rows[place])]
            is_single = group.launches == 1 and not group.is_running
            if is_single and (estimate := group.estimate()):
                is_open[place] = least < estimate[0] - self._best.log_s < most
        scores[~is_open] = -np.inf
        pick = int(np.argmax(scores))
        return pick if np.isfinite(scores[pick]) else None


def _is_enough(group: Group) -> bool:
    """Return whether a setting was launched often enough, or runs elsewhere."""
    if group.is_running:
        return True
    if group.finished:
        return group.failures > 1 or group.launches >= MOST_REPEATS
    return group.failures > 0 or group.launches >= 2
