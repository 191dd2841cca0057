"""What to launch next, as a function of the history: no clock, no files, no effects.

`Search.next` depends on the history, the space and the seed only, so that a study that was
resumed goes on as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tuner.racing import Limit, Noise
from tuner.search.acquisition import cost_s, gradient, normal_cdf
from tuner.search.candidates import candidates, most_promising, steps_away
from tuner.search.estimate import Doubt, Fit, Incumbent, fit, incumbent
from tuner.search.history import Groups, Observation, Purpose, grouped, noise
from tuner.search.kernel import Kernel, Prior
from tuner.search.regions import barred, chance_of_failure, overdone
from tuner.search.space import Flags, Floats, Grid, Key, Rows, Space

#: Of single runs about their setting's median, before any setting was run twice.
_RUN_SD = 0.05

Reason = Literal["trials", "budget", "converged", "exhausted"]


@dataclass(frozen=True)
class Launch:
    """What to run now, and against what it is raced; ``None`` as limit lets it run."""

    setting: Key | None
    purpose: Purpose
    limit: Limit | None
    noise: Noise


@dataclass(frozen=True)
class Done:
    """Why the search ends."""

    reason: Reason


@dataclass(frozen=True)
class Options:
    """When it ends, and figures that were chosen on surfaces."""

    trials: int = 50  # distinct settings
    budget_s: float | None = None  # of launches, wall time
    until: float = 0.01  # end once going on is expected to gain less than this share
    precision: float = 0.02  # contenders are told apart as far as this share
    least_trials: int = 8  # before convergence counts
    baseline_factor: float = 3.0  # the baseline is cut at this multiple of the incumbent
    repeat_factor: float = 1.4  # a repeat at this multiple of its own estimate: an outlier
    most_repeats: int = 12
    contender_chance: float = 0.2  # that a setting is better by more than the precision
    caution: float = 0.25  # standard errors added to a mean before it is called best
    step_share: float = 0.05  # a launch that gains less than this share of `until` is idle
    hidden_share: float = 1.0  # and ends it if all that is hidden is below this share
    doubted_share: float = 0.5  # a lone failure that rules out more of the space is doubted
    patience: float = 0.05  # or if it is below this share of idle
    overdone_log: float = 0.4  # slower than the incumbent by this logarithm: overdone
    overdone_share: float = 0.1  # of the expected gain that is left to what is beyond
    beside_sds: float = -2.5  # a neighbour this unlikely to be better is left out
    diagonal_sds: float = -1.2  # the same for two knobs moved at once
    doubt: Doubt = field(default_factory=Doubt)
    prior: Prior = field(default_factory=Prior)


@dataclass(frozen=True)
class _State:
    """What the history comes to."""

    groups: Groups
    fit: Fit | None
    best: Incumbent | None
    noise: Noise
    rng: np.random.Generator

    @property
    def limit(self) -> Limit | None:
        """What a trial is raced against: the incumbent."""
        if self.best is None:
            return None
        return Limit(math.exp(self.best.log_s), min(self.best.se, 0.1))


@dataclass(frozen=True)
class _Pool:
    """The candidates, with what is expected of each."""

    rows: Rows
    known: Flags
    mean: Floats
    sd: Floats
    gain: Floats
    cost: Floats


class Search:
    """Guesses, baseline, then whatever promises most for its cost."""

    def __init__(self, space: Space, options: Options | None = None, seed: int = 0) -> None:
        self.space, self.options, self.seed = space, options or Options(), seed
        self._grid = Grid(space)
        self._kernel = Kernel(self._grid, self.options.prior)
        self._last: tuple[list[Observation], _State | None] = ([], None)

    def best(self, history: Sequence[Observation]) -> Key | None:
        """The setting to call best: the lowest shrunk mean among those that ran to the end."""
        best = self._state(history).best
        return best.key if best else None

    def next(self, history: Sequence[Observation]) -> Launch | Done:
        """The next launch, or why there is none."""
        budget_s = self.options.budget_s
        spent_s = sum(seen.wall_s for seen in history if seen.purpose != "confirm")
        if budget_s is not None and spent_s >= budget_s:
            return Done("budget")
        state = self._state(history)
        doubtful = self._doubtful_failure(state)
        if doubtful is not None:
            return Launch(doubtful, "repeat", state.limit, state.noise)
        guess = self._guess(state.groups)
        if guess is not None:
            return Launch(guess, "guess", state.limit, state.noise)
        if self._wants_baseline(history, state.groups):
            limit = state.limit
            if limit is not None:
                limit = replace(limit, factor=self.options.baseline_factor)
            return Launch(self.space.baseline, "baseline", limit, state.noise)
        if state.fit is None or state.best is None:
            return self._first(state)
        return self._weigh(state, state.fit, state.best)

    def _state(self, history: Sequence[Observation]) -> _State:
        """What the history comes to; the last one is kept, as it is asked for twice."""
        known, state = self._last
        if state is None or known != list(history):
            state = self._made(history)
            self._last = list(history), state
        return replace(state, rng=np.random.default_rng([self.seed, len(history)]))

    def _made(self, history: Sequence[Observation]) -> _State:
        groups = grouped(history)
        fitted = fit(self._kernel, groups, self.options.doubt, self.seed)
        best = incumbent(fitted, self._grid, self.options.caution) if fitted else None
        run_sd = _RUN_SD
        if fitted is not None and best is not None:
            run_sd = float(fitted.model.noise_sd(self._grid.rows([best.key]))[0])
        rng = np.random.default_rng([self.seed, len(history)])
        return _State(groups, fitted, best, noise(history, run_sd), rng)

    def _guess(self, groups: Groups) -> Key | None:
        """The first guess that was not launched yet and is not ruled out."""
        if len(groups) >= self.options.trials:
            return None
        for key in self.space.guesses:
            if key not in groups and not barred(self._grid, self._grid.rows([key]), groups)[0]:
                return key
        return None

    def _doubtful_failure(self, state: _State) -> Key | None:
        """A setting that failed once, perhaps by chance, and would rule out much of the space."""
        for key, group in state.groups.items():
            if group.only_failed and group.launches == 1 and group.by_chance:
                rows = candidates(self._kernel, state.groups, state.rng)
                if barred(self._grid, rows, {key: group}).mean() > self.options.doubted_share:
                    return key
        return None

    def _wants_baseline(self, history: Sequence[Observation], groups: Groups) -> bool:
        known = self.space.baseline is not None and self.space.baseline in groups
        return not known and all(seen.purpose != "baseline" for seen in history)

    def _first(self, state: _State) -> Launch | Done:
        """Nothing has finished yet: what asks for little, a little more each time."""
        rows = candidates(self._kernel, state.groups, state.rng)
        free = rows[~barred(self._grid, rows, state.groups)]
        free = free[[self._grid.key(row) not in state.groups for row in free]]
        if not len(free):
            return Done("exhausted")
        if len(state.groups) >= self.options.trials:
            return Done("trials")
        order = np.arange(len(free)) + 0.0
        demand = self._grid.demand(free) if self._grid.has_roles else order
        pick = int(np.argmin(np.abs(demand + len(state.groups) * 0.3)))
        return self._try(free[pick], state)

    def _weigh(self, state: _State, fitted: Fit, best: Incumbent) -> Launch | Done:
        """The launch that is expected to gain most for its cost, or the end."""
        if fitted.too_fast:
            return self._repeat(fitted.too_fast[0], state, fitted)
        pool = self._pool(state, fitted, best)
        pick = int(np.argmax(pool.gain / pool.cost))
        gain = float(pool.gain[pick])
        full = len(state.groups) >= self.options.trials
        all_tried = not (pool.gain[~pool.known] > 0).any()
        enough = full or all_tried or len(state.groups) >= self.options.least_trials
        if enough and self._converged(gain, self._hidden(pool, fitted, best, state.rng)):
            last = self._last_look(pool, best, state, fitted)
            reason: Reason = "trials" if full else "exhausted" if all_tried else "converged"
            return last or Done(reason)
        if gain <= (self.options.until * 0.1 if full else 0.0):
            return Done("trials" if full else "exhausted")
        key = self._grid.key(pool.rows[pick])
        if key in state.groups and state.groups[key].finished:
            return self._repeat(key, state, fitted)
        return self._try(pool.rows[pick], state)

    def _try(self, row: Rows, state: _State) -> Launch:
        """Race a setting that has not finished yet."""
        key = self._grid.key(row)
        purpose: Purpose = "repeat" if key in state.groups else "explore"
        return Launch(key, purpose, state.limit, state.noise)

    def _repeat(self, key: Key, state: _State, fitted: Fit) -> Launch:
        """Once more what has finished; far slower than its own estimate is not waited for."""
        row = self._grid.rows([key])
        mean, sd = fitted.model.predict(row)
        limit = Limit(math.exp(float(mean[0])), float(sd[0]), self.options.repeat_factor)
        run_sd = float(fitted.model.noise_sd(row)[0])
        return Launch(key, "repeat", limit, replace(state.noise, run_sd=run_sd))

    def _pool(self, state: _State, fitted: Fit, best: Incumbent) -> _Pool:
        rows, known = self._open_rows(state)
        mean, sd = fitted.model.predict(rows)
        keys = [
            self._grid.key(row) if seen else None for row, seen in zip(rows, known, strict=True)
        ]
        # of the incumbent: what is saved if another run shows it to be slower than the second
        own = np.array([key == best.key for key in keys])
        ahead = np.where(own, mean - best.second_log_s, best.log_s - mean)
        gain = gradient(ahead, sd, fitted.model.noise_sd(rows))
        gain *= 1 - chance_of_failure(self._grid, rows, state.groups)
        if self._grid.has_roles:
            slow = best.log_s + self.options.overdone_log
            beyond = overdone(self._grid, rows, state.groups, slow)
            gain[beyond & ~known] *= self.options.overdone_share
        gain[[key is not None and self._spent(key, state.groups) for key in keys]] = 0.0
        if len(state.groups) >= self.options.trials:
            gain[~known] = 0.0
        return _Pool(
            rows, known, mean, sd, gain, cost_s(mean, sd, best.log_s, state.noise.startup_s)
        )

    def _open_rows(self, state: _State) -> tuple[Rows, Flags]:
        """The candidates that are not ruled out, and which of them were launched already."""
        rows = candidates(self._kernel, state.groups, state.rng)
        launched = {tuple(row) for row in self._grid.rows(list(state.groups)).tolist()}
        known = np.array([tuple(row) in launched for row in rows.tolist()])
        out = barred(self._grid, rows, state.groups)
        most = self.space.most_demand
        if most is not None:
            out |= self._grid.demand(rows) > math.log2(most) + 1e-9
        kept = ~out | known
        return rows[kept], known[kept]

    def _spent(self, key: Key, groups: Groups) -> bool:
        """True where a launched setting is not launched again."""
        group = groups[key]
        if group.finished:
            return group.launches >= self.options.most_repeats
        return group.failures > 0 or group.launches >= 2

    def _hidden(self, pool: _Pool, fitted: Fit, best: Incumbent, rng: np.random.Generator) -> float:
        """What all that is not yet known could still give: the incumbent's expected regret."""
        likely = pool.rows[np.argsort(-pool.gain)[:120]]
        rows = np.concatenate([self._grid.rows([best.key]), likely])
        drawn = fitted.model.sample(rows, 128, rng)
        return float(np.mean(drawn[:, 0] - drawn.min(1)))

    def _converged(self, gain: float, hidden: float) -> bool:
        idle = self.options.until * self.options.step_share
        if gain >= idle:
            return False
        # much may still be hidden while no launch promises it: then look a little longer
        return hidden < self.options.until * self.options.hidden_share or (
            gain < idle * self.options.patience
        )

    def _last_look(self, pool: _Pool, best: Incumbent, state: _State, fitted: Fit) -> Launch | None:
        """What no search ends before: neighbours of the incumbent, then contenders."""
        if len(state.groups) < self.options.trials:
            beside = self._beside(pool, best)
            if beside is not None:
                return self._try(pool.rows[beside], state)
        contender = self._contender(pool, best, state.groups)
        return None if contender is None else self._repeat(contender, state, fitted)

    def _contender(self, pool: _Pool, best: Incumbent, groups: Groups) -> Key | None:
        """What to launch again as a setting may yet be better by more than the precision.

        Of the incumbent and the likeliest such setting the one that is known less well.
        """
        gap = best.log_s - math.log1p(self.options.precision) - pool.mean
        chance = normal_cdf(gap / np.hypot(pool.sd, best.se))
        likely = np.flatnonzero(pool.known & (chance > self.options.contender_chance))
        for place in likely[np.argsort(-chance[likely])]:
            key = self._grid.key(pool.rows[place])
            if key == best.key or not groups[key].finished:
                continue
            for each in sorted((key, best.key), key=lambda each: len(groups[each].finished)):
                if not self._spent(each, groups):
                    return each
        return None

    def _beside(self, pool: _Pool, best: Incumbent) -> int | None:
        """The untried setting next to the incumbent that promises most.

        A smooth model can be sure and wrong beside a kink, so no search ends before these
        were looked at; none where each is tried, or far worse even by a doubtful model.
        """
        beside, diagonal = steps_away(self._grid, pool.rows, self._grid.row(best.key))
        scores = (best.log_s - pool.mean) / np.hypot(pool.sd, 0.03)
        least = (self.options.beside_sds, self.options.diagonal_sds)
        return most_promising(scores, beside & ~pool.known, diagonal & ~pool.known, least)
