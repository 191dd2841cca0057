"""What to launch next, as a function of the history: no clock, no files, no effects.

`Search.next` depends on the history, the space and the seed only, so that a study that was
resumed goes on as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tuner.model import Purpose
from tuner.search.gaussian import Gaussian, Incumbent, fit, incumbent
from tuner.search.grid import Grid, Key, Rows, Space
from tuner.search.kernel import PRIOR, WINDOW_PRIOR, Kernel
from tuner.search.launch_groups import OUTLIER, Groups, SearchObservation, grouped, noise
from tuner.search.regions import ruled_out
from tuner.search.scoring import Live, Options, ScoredCandidates, State, candidates
from tuner.search.stopper import Limit, Noise
from tuner.stats.noise import RUNS

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

#: The baseline is stopped once it will take this many times as long as the best setting.
BASELINE_TIMES = 3.2

#: After this many windows of other settings the incumbent is measured again.
AGAIN_AFTER = 6

#: This many settings are tried before convergence counts.
_LEAST_TRIALS = 8

#: ``terminated``: another terminator said so.
Reason = Literal["trials", "budget", "converged", "exhausted", "terminated"]


@dataclass(frozen=True)
class Proposal:
    """The next launch; without a setting it is the baseline, which is no setting of the space."""

    setting: Key | None
    purpose: Purpose


@dataclass(frozen=True)
class Done:
    """Why the search ends."""

    reason: Reason


class Search:
    """Proposes guesses, the baseline, then the launch that promises most for its cost."""

    def __init__(self, space: Space, options: Options | None = None, seed: int = 0) -> None:
        self.space, self.options, self.seed = space, options or Options(), seed
        self._grid = Grid(space)
        self._kernel = Kernel(self._grid, PRIOR)
        self._window_kernel = Kernel(self._grid, WINDOW_PRIOR)
        self._last_state: tuple[list[SearchObservation], State | None] = ([], None)

    def best(self, history: Sequence[SearchObservation]) -> Key | None:
        """Return the setting to call best: the lowest shrunk mean of those that ran to the end."""
        best = self._state(history).best
        return best.key if best else None

    def race(
        self, history: Sequence[SearchObservation], purpose: Purpose, key: Key | None
    ) -> tuple[Limit | None, Noise]:
        """Return the limit that a launch has to keep, and how much runs differ; ``None``: no limit.

        A launch without a key is of no setting of the space.
        """
        state = self._state(history)
        best, noise = state.best, state.noise
        if best is None:
            return None, noise
        limit = Limit(math.exp(best.log_s), log_se=min(best.se, 0.1))
        if purpose is Purpose.BASELINE:
            # The baseline should run to its end, which shows its result, unless it is far slower.
            limit = replace(limit, log_se=0.0, factor=BASELINE_TIMES)
            return limit, replace(noise, run_sd=0.0)
        if purpose is Purpose.SIMPLIFY:  # the launch may be as slow as the best
            return replace(limit, factor=1 + self.options.precision), noise
        group = None if key is None else state.groups.get(key)
        if purpose is Purpose.REPEAT and group and group.finished and state.fit and key:
            # A repeat that is far slower than the setting's own estimate is an outlier.
            row = self._grid.rows([key])
            mean, sd = state.fit.predict(row)
            limit = Limit(math.exp(float(mean[0])), log_se=float(sd[0]), factor=math.exp(OUTLIER))
            return limit, replace(noise, run_sd=float(state.fit.noise_sd(row)[0]))
        return limit, noise

    def next(
        self,
        history: Sequence[SearchObservation],
        live: Live | None = None,
        *,
        is_shared: bool = False,
    ) -> Proposal | Done:
        """Return the next launch, or why there is none.

        If other hosts measure too (``is_shared``), the baseline comes early: it shows whether they
        are as fast.
        """
        state = self._state(history, live)
        budget_s = self.options.budget_s
        spent_s = sum(run.wall_s for run in history if run.purpose.stage.counts_for_budget)
        is_spent = budget_s is not None and spent_s >= budget_s
        launch = Done("budget") if is_spent else self._most_promising(history, state, is_shared)
        if isinstance(launch, Done) and self._needs_baseline(history, state.groups):
            return self._baseline  # there is no verdict without it
        return launch

    def _most_promising(
        self, history: Sequence[SearchObservation], state: State, is_shared: bool
    ) -> Proposal | Done:
        """Return the launch that promises most, the budget aside, or why there is none."""
        for key in () if state.is_full else self.space.guesses:
            row = self._grid.rows([key])
            if key not in state.groups and not ruled_out(self._grid, row, state.groups)[0]:
                return Proposal(key, Purpose.GUESS)
        # Among windows of a running job the baseline comes last: it is a launch of its own, which
        # is stopped earlier once a good setting is known.
        is_later = state.live is not None and state.best is not None and not is_shared
        if not is_later and self._needs_baseline(history, state.groups):
            return self._baseline
        if state.fit is None or state.best is None:
            return self._before_any_finished(state)
        recent = [window.setting for window in history[-AGAIN_AFTER:] if window.in_job]
        if len(recent) == AGAIN_AFTER and state.best.key not in recent:
            # The machine may have become slower or faster since the incumbent was measured.
            return Proposal(state.best.key, Purpose.REPEAT)
        return self._weigh(state, state.fit, state.best)

    @property
    def _baseline(self) -> Proposal:
        return Proposal(self.space.baseline, Purpose.BASELINE)

    def _state(self, history: Sequence[SearchObservation], live: Live | None = None) -> State:
        """Return the state after a history. Callers need it twice, so the last one is kept."""
        last_history, state = self._last_state
        if state is None or last_history != list(history):
            state = self._state_after(history)
            self._last_state = list(history), state
        return replace(state, rng=np.random.default_rng([self.seed, len(history)]), live=live)

    def _state_after(self, history: Sequence[SearchObservation]) -> State:
        groups = grouped(history)
        in_jobs = any(launch.in_job for launch in history)
        fitted = fit(self._window_kernel if in_jobs else self._kernel, groups, self.seed)
        best = incumbent(fitted, groups) if fitted else None
        run_sd = RUNS.sd
        if fitted is not None and best is not None:
            run_sd = float(fitted.noise_sd(self._grid.rows([best.key]))[0])
        trials = {launch.setting for launch in history if launch.purpose.stage.counts_as_trial}
        is_full = len(trials - {None}) >= self.options.trials
        return State(groups, fitted, best, noise(history, run_sd), is_full)

    def _needs_baseline(self, history: Sequence[SearchObservation], groups: Groups) -> bool:
        """Return whether the defaults are still to be launched; again if they failed by chance."""
        launches = [launch for launch in history if launch.purpose is Purpose.BASELINE]
        if not launches:
            return self.space.baseline is None or self.space.baseline not in groups
        return len(launches) == 1 and launches[0].ending == "failed" and launches[0].by_chance

    def _before_any_finished(self, state: State) -> Proposal | Done:
        """Propose a setting that fills the cores, with fewer of them after each that failed."""
        rows = candidates(self._kernel, state.groups, state.rng)
        untried = rows[~ruled_out(self._grid, rows, state.groups)]
        untried = untried[[self._grid.key(row) not in state.groups for row in untried]]
        if not len(untried):
            return Done("exhausted")
        if state.is_full:
            return Done("trials")
        octaves_below_full = len(state.groups) * 0.3
        pick = int(np.argmin(np.abs(self._grid.demand(untried) + octaves_below_full)))
        return self._propose(untried[pick], state)

    def _weigh(self, state: State, fitted: Gaussian, best: Incumbent) -> Proposal | Done:
        """Return the launch that is expected to gain most for its cost, or the end."""
        scored = ScoredCandidates(self.options, state, fitted, best)
        is_full, all_tried = state.is_full, scored.all_tried
        may_converge = is_full or all_tried or len(state.groups) >= _LEAST_TRIALS
        if may_converge and (scored.converged() or (is_full and not self.options.until)):
            neighbour = None if is_full else scored.neighbour()
            if neighbour is not None:
                return self._propose(scored.rows[neighbour], state)
            return Done("trials" if is_full else "exhausted" if all_tried else "converged")
        pick = int(np.argmax(scored.gain / scored.cost_s()))
        if scored.gain[pick] <= (self.options.until * 0.1 if is_full else 0.0):  # only repeats
            return Done("trials" if is_full else "exhausted")
        return self._propose(scored.rows[pick], state)

    def _propose(self, row: Rows, state: State) -> Proposal:
        """Propose a setting: as a repeat if it was launched before."""
        key = self._grid.key(row)
        purpose = Purpose.REPEAT if key in state.groups else Purpose.SEARCH
        return Proposal(key, purpose)


# --- in the parameters of a study of Optuna --------------------------------------------


@dataclass(frozen=True)
class Suggestion:
    """The purpose of the next launch and the parameters of its setting; none for the defaults."""

    purpose: Purpose
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A study in the words of the search: all that its next launch depends on."""

    search: Search | None  # decides over the space of the study; None: nothing is left to choose
    observations: Sequence[SearchObservation] = ()  # what launches came to, the oldest first
    params: Callable[[Key], Mapping[str, Any]] = lambda _: {}  # of a setting of the space
    distributions: Callable[[], Mapping[str, BaseDistribution]] = dict  # of all parameters
    live: Live | None = None  # what running jobs change of the costs
    is_shared: bool = False  # other hosts measure a part of the study
    first: Suggestion | None = None  # is launched before anything that the search proposes
    last: Callable[[], Suggestion | None] = lambda: None  # is launched once the search has ended

    @cached_property
    def next(self) -> Suggestion | Done:
        """Return what is launched next, or why the search is over."""
        if self.first is not None:
            return self.first
        if self.search is None:
            return self.last() or Done("exhausted")
        step = self.search.next(self.observations, self.live, is_shared=self.is_shared)
        if isinstance(step, Done):
            return self.last() or step
        return Suggestion(step.purpose, {} if step.setting is None else self.params(step.setting))


#: A search that is used again saves time; its answers are the same.
search_over = lru_cache(maxsize=8)(Search)
