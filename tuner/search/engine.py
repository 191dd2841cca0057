"""What to launch next, as a function of the history: no clock, no files, no effects.

`Search.next` depends on the history, the space and the seed only, so that a study that was
resumed goes on as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tuner.model import Lesson, Purpose
from tuner.search.estimate import Incumbent, fit, incumbent
from tuner.search.gaussian import Evidence, Gaussian
from tuner.search.history import Groups, SearchObservation, grouped, log_times, noise
from tuner.search.kernel import PRIOR, WINDOW_PRIOR, Kernel
from tuner.search.options import Options
from tuner.search.regions import ruled_out
from tuner.search.scoring import Live, ScoredCandidates, State, candidates
from tuner.search.space import Grid, Key, Rows, Space
from tuner.search.stopper import Limit, Noise
from tuner.search.transfer import translated

#: The baseline is stopped once it will take this many times what the best setting does.
BASELINE_TIMES = 3.2

#: Of single runs about their setting's median, before any setting was run twice.
_RUN_SD = 0.05

#: If the machine's guess is slower than this by an earlier study, as a logarithm, it comes second.
_SAFE = 0.7

#: What an earlier study holds to be slower than its best by this, a logarithm, is slow.
_SLOW = 0.3

#: After this many windows of other settings the incumbent is measured again.
AGAIN_AFTER = 6

#: ``terminated``: another terminator said so.
Reason = Literal["trials", "budget", "converged", "exhausted", "terminated"]


@dataclass(frozen=True)
class Proposal:
    """What to run now; ``None`` as setting: the baseline, if that is no setting of the space."""

    setting: Key | None
    purpose: Purpose


@dataclass(frozen=True)
class Done:
    """Why the search ends."""

    reason: Reason


class Search:
    """Guesses, baseline, then whatever promises most for its cost.

    Args:
        space: What can be tried.
        options: When it ends.
        seed: Of its draws.
        lesson: What an earlier study showed: a prior, and the first guess.
    """

    def __init__(
        self,
        space: Space,
        options: Options | None = None,
        seed: int = 0,
        lesson: Lesson | None = None,
    ) -> None:
        self.space, self.options, self.seed = space, options or Options(), seed
        self.lesson = lesson
        self._grid = Grid(space)
        self._earlier = translated(lesson, self._grid)
        self._kernel = Kernel(self._grid, PRIOR, self._earlier)
        self._of_windows = Kernel(self._grid, WINDOW_PRIOR, self._earlier)
        self._last: tuple[list[SearchObservation], State | None] = ([], None)

    def best(self, history: Sequence[SearchObservation]) -> Key | None:
        """The setting to call best: the lowest shrunk mean among those that ran to the end."""
        best = self._state(history).best
        return best.key if best else None

    def race(
        self, history: Sequence[SearchObservation], purpose: Purpose, key: Key | None
    ) -> tuple[Limit | None, Noise]:
        """Return what a launch is raced against, and how much runs differ; ``None`` lets it run.

        Args:
            history: The launches before it.
            purpose: What it is made for.
            key: Its setting; ``None``: no setting of the space.
        """
        state = self._state(history)
        best, noise = state.best, state.noise
        if best is None:
            return None, noise
        limit = Limit(math.exp(best.log_s), min(best.se, 0.1))
        if purpose is Purpose.BASELINE:
            # The baseline should run to its end, which shows what its result is, unless it is
            # ruinously slow.
            limit = replace(limit, log_se=0.0, factor=BASELINE_TIMES)
            return limit, replace(noise, run_sd=0.0)
        if purpose is Purpose.SIMPLIFY:  # the launch may be as slow as the best
            return replace(limit, factor=1 + self.options.precision), noise
        group = None if key is None else state.groups.get(key)
        if purpose is Purpose.REPEAT and group and group.finished and state.fit and key:
            # A repeat that is far slower than the setting's own estimate is an outlier.
            row = self._grid.rows([key])
            mean, sd = state.fit.predict(row)
            limit = Limit(math.exp(float(mean[0])), float(sd[0]), self.options.repeat_factor)
            return limit, replace(noise, run_sd=float(state.fit.noise_sd(row)[0]))
        return limit, noise

    def next(
        self,
        history: Sequence[SearchObservation],
        live: Live | None = None,
        *,
        is_shared: bool = False,
    ) -> Proposal | Done:
        """The next launch, or why there is none.

        Args:
            history: The launches so far.
            live: What running jobs change of the costs, in a study that measures live.
            is_shared: Other hosts measure, too: the baseline tells if they are as fast.
        """
        state = self._state(history, live)
        budget_s = self.options.budget_s
        spent_s = sum(run.wall_s for run in history if run.purpose.stage.counts_for_budget)
        is_spent = budget_s is not None and spent_s >= budget_s
        launch = Done("budget") if is_spent else self._most_promising(history, state, is_shared)
        if isinstance(launch, Done) and self._needs_baseline(history, state.groups):
            return self._baseline  # there is no verdict without
        return launch

    def _most_promising(
        self, history: Sequence[SearchObservation], state: State, is_shared: bool
    ) -> Proposal | Done:
        """Return the launch that promises most, the budget aside, or why there is none."""
        guess = self._guess(state)
        if guess is not None:
            return Proposal(guess, Purpose.GUESS)
        # Among windows of a running job it comes last: as a launch of its own it is stopped
        # earlier once a good setting is known.
        # After an earlier study it comes last, too: little is to be learnt from it then.
        later = state.live is not None or self._uses_lesson(state.groups)
        later = later and state.best is not None and not is_shared
        if not later and self._needs_baseline(history, state.groups):
            return self._baseline
        if state.fit is None or state.best is None:
            return self._first(state)
        recent = [window.setting for window in history[-AGAIN_AFTER:] if window.in_job]
        if len(recent) == AGAIN_AFTER and state.best.key not in recent:
            # The machine may have become slower or faster since the incumbent was measured.
            return Proposal(state.best.key, Purpose.REPEAT)
        return self._weigh(state, state.fit, state.best)

    @property
    def _baseline(self) -> Proposal:
        return Proposal(self.space.baseline, Purpose.BASELINE)

    def _state(self, history: Sequence[SearchObservation], live: Live | None = None) -> State:
        """Return what the history comes to. It is asked for twice, so the last one is kept."""
        last_history, state = self._last
        if state is None or last_history != list(history):
            state = self._state_after(history)
            self._last = list(history), state
        return replace(state, rng=np.random.default_rng([self.seed, len(history)]), live=live)

    def _state_after(self, history: Sequence[SearchObservation]) -> State:
        groups = grouped(history)
        in_jobs = any(launch.in_job for launch in history)
        kernel = self._of_windows if in_jobs else self._kernel
        if kernel.earlier is not None:
            # The first setting after the guesses is what is best without it: a look elsewhere.
            is_first = groups.keys() == set(self._lesson_guesses)
            if is_first or not self._uses_lesson(groups):
                kernel = Kernel(self._grid, kernel.prior)
        fitted = fit(kernel, groups, self.seed)
        core_price = self.options.core_price if in_jobs else 0.0
        best = incumbent(fitted, groups, core_price) if fitted else None
        run_sd = _RUN_SD
        if fitted is not None and best is not None:
            run_sd = float(fitted.noise_sd(self._grid.rows([best.key]))[0])
        trials = {launch.setting for launch in history if launch.purpose.stage.counts_as_trial}
        is_full = len(trials - {None}) >= self.options.trials
        return State(groups, fitted, best, noise(history, run_sd), is_full)

    def _guess(self, state: State) -> Key | None:
        """Return the first guess that was not launched yet and is not ruled out."""
        if state.is_full:
            return None
        groups = state.groups
        for key in self._lesson_guesses if self._uses_lesson(groups) else self.space.guesses:
            row = self._grid.rows([key])
            if key not in groups and not ruled_out(self._grid, row, groups)[0]:
                return key
        return None

    @cached_property
    def _earlier_alone(self) -> Gaussian:
        """The model of an earlier study alone: its times, but for their level."""
        none = np.zeros(0)
        data = Evidence(self._grid.rows([]), none, none, none)
        return Gaussian(self._kernel, data, self.seed)

    @cached_property
    def _lesson_guesses(self) -> tuple[Key, ...]:
        """The guesses with an earlier study: the machine's, and what should be fastest by that.

        The machine's comes first, so that one that misleads is stopped early; unless it is the one
        that is far slower by the earlier study. Empty: there is none, or all that fits has failed.
        """
        if self._earlier is None:
            return ()
        groups, rng = self._earlier.groups, np.random.default_rng(self.seed)
        rows = candidates(self._kernel, groups, rng)
        rows = rows[~ruled_out(self._grid, rows, groups)]
        if not len(rows):
            return ()
        own = self.space.guesses[:1]
        mean, _ = self._earlier_alone.predict(np.concatenate([rows, self._grid.rows(own)]))
        fastest = int(np.argmin(mean[: len(rows)]))
        guess = self._grid.key(rows[fastest])
        is_safe = (mean[len(rows) :] < mean[fastest] + _SAFE).all()
        return tuple(dict.fromkeys((*own, guess) if is_safe else (guess, *own)))

    def _uses_lesson(self, groups: Groups) -> bool:
        """Return whether an earlier study is a prior.

        Not once its guess is slower than the machine's, or than a setting that should be slow.
        """
        log_s = log_times(groups)
        if not self._lesson_guesses or not log_s or not groups.keys() >= set(self._lesson_guesses):
            return bool(self._lesson_guesses)
        own = self.space.guesses[:1]
        guess = next(
            (key for key in self._lesson_guesses if key not in own), self._lesson_guesses[0]
        )
        if guess not in log_s or any(log_s[key] < log_s[guess] for key in own if key in log_s):
            return False
        faster = [key for key in log_s if log_s[key] < log_s[guess]]
        if not faster:
            return True
        mean, _ = self._earlier_alone.predict(self._grid.rows([guess, *faster]))
        return bool((mean[1:] < mean[0] + _SLOW).all())

    def _needs_baseline(self, history: Sequence[SearchObservation], groups: Groups) -> bool:
        """Return whether the defaults are still to be launched; again if they failed by chance."""
        launches = [launch for launch in history if launch.purpose is Purpose.BASELINE]
        if not launches:
            return self.space.baseline is None or self.space.baseline not in groups
        return len(launches) == 1 and launches[0].ending == "failed" and launches[0].by_chance

    def _first(self, state: State) -> Proposal | Done:
        """Propose what asks for little, a little more each time, until a launch finishes."""
        rows = candidates(self._kernel, state.groups, state.rng)
        free = rows[~ruled_out(self._grid, rows, state.groups)]
        free = free[[self._grid.key(row) not in state.groups for row in free]]
        if not len(free):
            return Done("exhausted")
        if state.is_full:
            return Done("trials")
        pick = int(np.argmin(np.abs(self._grid.demand(free) + len(state.groups) * 0.3)))
        return self._try(free[pick], state)

    def _weigh(self, state: State, fitted: Gaussian, best: Incumbent) -> Proposal | Done:
        """Return the launch that is expected to gain most for its cost, or the end."""
        weighed = ScoredCandidates(self.options, state, fitted, best)
        full = state.is_full
        all_tried = weighed.all_tried
        enough = full or all_tried or len(state.groups) >= self.options.least_trials
        is_over = weighed.converged() or (full and not self.options.until)
        if enough and is_over:
            reason: Reason = "trials" if full else "exhausted" if all_tried else "converged"
            neighbour = None if full else weighed.neighbour()
            return Done(reason) if neighbour is None else self._try(weighed.rows[neighbour], state)
        pick = weighed.pick
        if weighed.gain[pick] <= (self.options.until * 0.1 if full else 0.0):
            return Done("trials" if full else "exhausted")
        return self._try(weighed.rows[pick], state)

    def _try(self, row: Rows, state: State) -> Proposal:
        """Propose a setting, again if it was launched before."""
        key = self._grid.key(row)
        purpose = Purpose.REPEAT if key in state.groups else Purpose.SEARCH
        return Proposal(key, purpose)
