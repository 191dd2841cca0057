"""What to do next: a function of the spec and of the launches so far.

So an interrupted study goes on as if nothing had happened, whoever runs it. First the search,
then the confirmation; the replayed machine asks here as the real one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.launch.clocks import once_compared, stopper_by
from tuner.live.running_job import live_costs
from tuner.model import Purpose, Setting, wording
from tuner.search.engine import Done, Problem, Suggestion, search_over
from tuner.search.scoring import Options
from tuner.search.stopper import EarlyStopper, ProjectionStopper
from tuner.study.confirmation import Confirmation, confirmation, search_s
from tuner.study.fewest import FewestChanges
from tuner.study.history import History
from tuner.study.observations import as_key, as_setting, observations, pending, search_space
from tuner.study.pairing import typical

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Step:
    """The next launch, or the next two: ``beside`` is the setting of a launch at its side."""

    purpose: Purpose
    setting: Setting
    beside: Setting | None = None


@dataclass(frozen=True)
class Stop:
    """Nothing more to do, and why."""

    reason: str


class Policy:
    """Says what comes next in a study; this base class searches nothing."""

    def next(self, history: History) -> Step | Stop:
        """Return the next launch, warm-ups aside, or why there is none."""
        step = self.search(history)
        return step if isinstance(step, Step) else self.after_search(history, step)

    def search(self, history: History) -> Step | Done:  # noqa: ARG002
        """Return the next launch of the search, or why the search is over."""
        return Done("exhausted")

    def after_search(self, history: History, over: Done) -> Step | Stop:
        """Return what follows the search, and ``over`` says why that has ended."""
        raise NotImplementedError

    def best(self, history: History) -> Setting | None:
        """Return the (canonical) setting to call best; never the baseline, if that is none."""
        raise NotImplementedError

    def confirmation(self, history: History) -> Confirmation | None:  # noqa: ARG002
        """Return where the comparison of the best stands; ``None``: nothing is compared."""
        return None

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:  # noqa: ARG002
        """Return what may end a launch early; ``None``: it runs to its end."""
        return None

    def problem(self, history: History) -> Problem:  # noqa: ARG002
        """Return the study in the words of the search."""
        return Problem(search=None)


class FixedSetting(Policy):
    """Launch the setting that the study fixes, again and again."""

    def best(self, history: History) -> Setting:
        """Return the fixed setting."""
        return history.spec.fixed

    def after_search(self, history: History, over: Done) -> Step:  # noqa: ARG002
        """Return one more launch of the fixed setting."""
        return Step(Purpose.RECORD, history.spec.fixed)


class SearchThenConfirm(Policy):
    """Search, simplify, then confirm. The study says how much is measured."""

    def __init__(self) -> None:
        self._problem: tuple[History, Problem] | None = None
        self._comparison: tuple[History, Confirmation | None] | None = None
        self._simplifying: tuple[object, FewestChanges] | None = None

    def best(self, history: History) -> Setting | None:
        """Return the setting that the search calls best; see `Policy`."""
        fewest = self.fewest(history)
        return None if fewest is None else fewest.best

    def search(self, history: History) -> Step | Done:
        """Return the next launch of the search, or why it is over, as `Problem.next` says.

        Before the program is given up for broken, and before a study ends with failures, a setting
        that had worked shows whose fault they are.
        """
        suggestion = self.problem(history).next
        return _step(history, suggestion) if isinstance(suggestion, Suggestion) else suggestion

    def after_search(self, history: History, over: Done) -> Step | Stop:
        """Return what follows the search: the defaults if they are missing, then the comparison.

        Where another terminator ended the search, a launch with fewer changes goes before.
        """
        if over.reason == "terminated" and history.default not in history.tried:
            return Step(Purpose.BASELINE, history.default)  # there is no verdict without it
        last = self._last_launch(history)
        if last is not None:
            return _step(history, last)
        comparison = self.confirmation(history)
        is_end = comparison is None or not comparison.next
        probe = history.setting_to_probe(is_end=is_end) if history.confirming else None
        if probe is not None:
            return Step(Purpose.CONFIRM, probe)
        if comparison is None or not comparison.next:
            return Stop(_reason(over, history))
        return Step(Purpose.CONFIRM, *comparison.next)

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:
        """Return what may end a launch early, for being too slow.

        In the search it is compared with the fastest setting so far, in the comparison with its
        other side.
        """
        clock, iterations = history.spec.objective.clock, history.expected_iterations(setting)
        if purpose is Purpose.CONFIRM:
            comparison = self.confirmation(history)
            canonical = history.pooling.canonical(setting)
            other = None if comparison is None else comparison.other_side(canonical)
            other_side = None if other is None else typical(history, other)
            return None if other_side is None else once_compared(clock, iterations, other_side)
        problem = self.problem(history)
        if problem.search is None:
            return None
        key = as_key(history, setting)
        limit, noise = problem.search.race(problem.observations, purpose, key)
        if limit is None:
            return None
        return stopper_by(clock, ProjectionStopper(limit, noise, iterations), iterations)

    def problem(self, history: History) -> Problem:
        """Return the study in the words of the search, made once for each history."""
        if self._problem is not None and self._problem[0] is history:
            return self._problem[1]
        spec, search = history.spec, None
        options = Options(
            trials=spec.trials,
            budget_s=spec.budget_s,
            until=spec.until if spec.terminator == "tune" else 0.0,
            precision=spec.precision,
        )
        observed, costs = observations(history, history.explored), None
        if history.size > 0:
            space = search_space(history)
            search = search_over(space, options, spec.seed)
            names = [knob.name for knob in history.knobs]
            costs = live_costs(spec, history.records, names)
            observed += pending(history, observed)
        # This setting shows whether the program works at all, if that is in doubt.
        probe = None if history.confirming else history.setting_to_probe(is_end=False)
        if probe is None and history.size == 0 and history.default not in history.tried:
            probe = history.default
        problem = Problem(
            search,
            observed,
            params=lambda key: as_setting(history, key).as_dict(),
            distributions=lambda: _distributions(history),
            live=costs,
            is_shared=bool(history.pending),
            first=None if probe is None else _launch_to_see(history, probe),
            last=lambda: self._last_launch(history),
        )
        self._problem = history, problem
        return problem

    def _last_launch(self, history: History) -> Suggestion | None:
        """Return the launch before the search ends: fewer changes, or a setting that had worked.

        Fewer changes are launched if they may be as fast, and within the budget. Another setting
        shows whose fault the last failures are.
        """
        spent_s, budget_s = search_s(history.searched), history.spec.budget_s
        if budget_s is None or spent_s < budget_s:
            fewest = self.fewest(history)
            setting = None if fewest is None else fewest.next()
            if setting is not None:
                return Suggestion(Purpose.SIMPLIFY, setting.as_dict())
        comparison = self.confirmation(history)
        if history.confirming or (comparison is not None and comparison.next):
            return None  # the launches of the comparison show it
        probe = history.setting_to_probe(is_end=True)
        return None if probe is None else _launch_to_see(history, probe)

    def confirmation(self, history: History) -> Confirmation | None:
        """Return where the comparison of the best stands; see `Policy`."""
        if self._comparison is None or self._comparison[0] is not history:
            best = None if history.spec.confirm == "none" else self.best(history)
            self._comparison = history, None if best is None else confirmation(history, best)
        return self._comparison[1]

    def fewest(self, history: History) -> FewestChanges | None:
        """Return what launches say of leaving knobs out of the best; ``None``: there is no best."""
        problem = self.problem(history)
        if problem.search is None:
            return None
        key = problem.search.best(observations(history, history.explored))
        if key is None:
            return None
        setting = as_setting(history, key)
        basis = setting, history.searched, history.spec, history.pooling
        if self._simplifying is None or self._simplifying[0] != basis:
            self._simplifying = basis, FewestChanges(history, setting, history.searched)
        return self._simplifying[1]


def _distributions(history: History) -> dict[str, BaseDistribution]:
    from tuner.study.trials import distributions  # `tune show` asks here too, without Optuna

    return distributions(history.knobs)


def _step(history: History, suggestion: Suggestion) -> Step:
    is_baseline = suggestion.purpose is Purpose.BASELINE
    setting = history.default if is_baseline else Setting.of(suggestion.params)
    return Step(suggestion.purpose, setting)


def _launch_to_see(history: History, setting: Setting) -> Suggestion:
    """Return the launch of a setting that shows whether the program works."""
    purpose = Purpose.BASELINE if setting == history.default else Purpose.REPEAT
    return Suggestion(purpose, setting.as_dict())


def _reason(done: Done, history: History) -> str:
    spec = history.spec
    reasons = {
        "trials": f"{history.trials} of {spec.trials} trials were made",
        "budget": f"the budget of {wording.duration(spec.budget_s or 0)} was used up (--budget)",
        "converged": f"going on is expected to gain less than {100 * spec.until:g} % (--min-gain)",
        "terminated": f"--terminator {spec.terminator} ended the search",
    }
    return reasons.get(done.reason) or history.exhausted()
