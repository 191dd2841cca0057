"""What to do next: a function of the spec and of the launches so far.

So an interrupted study goes on as if nothing had happened, whoever runs it. First the search,
then the confirmation; the replayed machine asks here as the real one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from tuner.launch.clocks import judge_by
from tuner.live.consistency import due_repeat
from tuner.live.running import live_costs
from tuner.model import Purpose, Setting, StudySpec, wording
from tuner.search import Done, Launch, Options, Search
from tuner.search.stopper import EarlyStopper, ProjectionStopper, TimeLimitStopper
from tuner.study.confirmation import confirmation
from tuner.study.history import History
from tuner.study.observations import as_key, as_setting, observations, search_space

_PURPOSES = {
    "baseline": Purpose.BASELINE,
    "guess": Purpose.GUESS,
    "explore": Purpose.SEARCH,
    "repeat": Purpose.REPEAT,
}


@dataclass(frozen=True)
class Step:
    """The next launch; ``judge`` says while it runs whether it may go on, ``None``: it may."""

    purpose: Purpose
    setting: Setting
    judge: EarlyStopper | None = None


@dataclass(frozen=True)
class Stop:
    """Nothing more to do, and why."""

    reason: str


class Policy(Protocol):
    """Says what comes next in a study."""

    def next(self, plan: History) -> Step | Stop:
        """The next launch, warm-ups aside, or why there is none."""

    def best(self, plan: History) -> Setting | None:
        """The (canonical) setting to call best; never the defaults, where they are no setting."""


class SearchThenConfirm:
    """Search, then confirm.

    Args:
        options: Figures of the search; how much is measured says the study.
    """

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._search: Search | None = None

    def best(self, plan: History) -> Setting | None:
        """The setting that the search calls best; see `Policy`."""
        if plan.size == 0:
            return None
        key = self._searching(plan).best(observations(plan, plan.searched))
        return None if key is None else as_setting(plan, key)

    def next(self, plan: History) -> Step | Stop:
        """The next launch of the search, then of the confirmation; see `Policy`."""
        found = self._search_step(plan)
        if isinstance(found, Step) or not plan.spec.confirm:
            return found
        best = self.best(plan)
        if best is None:
            return found
        state = confirmation(plan, best)
        if state.next is None:
            return found
        limit_s, iterations = state.next.limit_s, plan.expected_iterations(state.next_setting)
        judge = None
        if limit_s is not None:
            judge = judge_by(
                plan.spec.objective.clock, TimeLimitStopper(limit_s, iterations), iterations
            )
        return Step(Purpose.CONFIRM, state.next_setting, judge)

    def _search_step(self, plan: History) -> Step | Stop:
        if plan.size == 0:
            known = plan.default in plan.tried
            return Stop(plan.exhausted()) if known else Step(Purpose.BASELINE, plan.default)
        history = observations(plan, plan.searched)
        names = [knob.name for knob in plan.knobs]
        costs = live_costs(plan.spec, plan.records, plan.pooling.canonical, names)
        launch = self._searching(plan).next(history, costs)
        step = Stop(_reason(launch, plan)) if isinstance(launch, Done) else _step(launch, plan)
        # Before it, the running job may have to show that it has not drifted.
        following = step.setting if isinstance(step, Step) else None
        repeat = due_repeat(plan.spec, plan.records, plan.pooling.canonical, following)
        key = None if repeat is None else as_key(plan, repeat)
        again = None if key is None else self._searching(plan).again(history, key)
        return step if again is None else _step(again, plan)

    def _searching(self, plan: History) -> Search:
        """The search over the plan's space; kept as long as that stays the same."""
        space, options = search_space(plan), self._of(plan.spec)
        search = self._search
        if search is None or (search.space, search.options) != (space, options):
            search = self._search = Search(space, options, plan.spec.seed)
        return search

    def _of(self, spec: StudySpec) -> Options:
        return replace(
            self._options,
            trials=spec.trials,
            budget_s=spec.budget_s,
            until=spec.until,
            precision=spec.precision,
        )


def _step(launch: Launch, plan: History) -> Step:
    setting = plan.default if launch.purpose == "baseline" else None
    if setting is None:
        assert launch.setting is not None
        setting = as_setting(plan, launch.setting)
    judge, iterations = None, plan.expected_iterations(setting)
    if launch.limit is not None:
        race = ProjectionStopper(launch.limit, launch.noise, iterations)
        judge = judge_by(plan.spec.objective.clock, race, iterations)
    return Step(_PURPOSES[launch.purpose], setting, judge)


def _reason(done: Done, plan: History) -> str:
    spec = plan.spec
    if done.reason == "trials":
        return f"{plan.trials} of {spec.trials} trials were made"
    if done.reason == "budget":
        assert spec.budget_s is not None
        return f"the budget of {wording.duration(spec.budget_s)} was used up (--budget)"
    if done.reason == "converged":
        return f"going on is expected to gain less than {wording.percent(spec.until)} (--min-gain)"
    return plan.exhausted()
