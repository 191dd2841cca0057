"""What has happened so far in a study that is followed: each event is added to the tally."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.knobs import setting_text
from tuner.model import (
    Effect,
    Ending,
    Failed,
    Finished,
    ObjectiveSpec,
    Progress,
    Purpose,
    Result,
    Setting,
    Stopped,
    StudySpec,
    figures,
    wording,
)
from tuner.stats import estimates
from tuner.study.confirmation import COST_SHARE
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, StudyStarted

#: What a launch is for that is no new trial.
_AGAIN = {
    Purpose.REPEAT: "repeat",
    Purpose.SIMPLIFY: "fewer changes",
    Purpose.CONFIRM: "confirmation",
}


@dataclass
class Current:
    """The launch that runs now."""

    purpose: Purpose
    setting: Setting
    started_s: float
    live: bool = False
    progress: Progress | None = None


@dataclass
class Tally:
    """What has happened so far in this run of ``tune``."""

    clock: Callable[[], float]
    spec: StudySpec | None = None
    done: int = 0
    asked: int = 0
    best_s: float | None = None
    best: Setting | None = None
    new_best: bool = False
    baseline_s: float | None = None
    baseline_failed: bool = False
    baseline_stopped: Stopped | None = None
    iterations: int | None = None
    current: Current | None = None
    failures: int = 0
    last: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=3))
    started_s: float = 0.0
    spent_s: float = 0.0  # by earlier runs
    searched_s: float | None = None  # what the search took; None: it goes on
    confirm_left_s: float | None = None  # at ``known_at_s``; None: nobody knows yet
    known_at_s: float = 0.0

    def __post_init__(self) -> None:
        self.started_s = self.clock()

    def add(self, event: Event) -> None:
        """Fold one event in."""
        if isinstance(event, StudyStarted):
            self.spec, self.asked = event.spec, event.spec.trials
            if event.so_far is not None:
                self._resume(event.so_far)
        elif isinstance(event, LaunchStarted):
            self.current = Current(event.purpose, event.setting, self.clock(), event.live)
            if not event.purpose.stage.counts_for_budget and self.searched_s is None:
                self.searched_s = self.spent_s + self.elapsed_s
            self.asked = event.trials
            if event.trial is not None:
                self.done = event.trial - 1
        elif isinstance(event, LaunchProgress) and self.current is not None:
            self.current.progress = event.progress
        elif isinstance(event, LaunchEnded):
            self._ended(event)

    def _resume(self, result: Result) -> None:
        self.done = result.trials
        self.spent_s = result.search_s + result.confirm_s
        self.confirm_left_s, self.known_at_s = result.confirm_left_s, self.clock()
        if result.best is not None:
            self.best, self.best_s = result.best.setting, result.best.elapsed_s
        if result.baseline is not None:
            self.baseline_s = result.baseline.elapsed_s
            self.baseline_failed = result.baseline.failure is not None
            self.baseline_stopped = result.baseline.stopped

    def _ended(self, event: LaunchEnded) -> None:
        record, ending = event.record, event.record.outcome.ending
        self.current = None
        self.confirm_left_s, self.known_at_s = event.confirm_left_s, self.clock()
        if not estimates.is_excluded(record):  # else it is launched again
            if record.purpose.stage.counts_as_trial:
                self.done = min(self.asked, self.done + 1)
            if isinstance(ending, Finished):
                self.iterations = ending.iterations
            elif record.purpose is Purpose.BASELINE:
                self.baseline_failed = isinstance(ending, Failed)
                self.baseline_stopped = ending if isinstance(ending, Stopped) else None
            self.failures += isinstance(ending, Failed)
            self.new_best = False
            measurement = event.measurement
            if measurement is not None and measurement.elapsed_s is not None:
                if record.setting.is_baseline:
                    self.baseline_s = measurement.elapsed_s
                in_turn = record.purpose is Purpose.CONFIRM
                self.new_best = event.is_best and measurement.setting != self.best and not in_turn
                if event.is_best:
                    self.best_s, self.best = measurement.elapsed_s, measurement.setting
        self.last.append((self._time(ending), self.ended_line(event, with_time=False)))

    def ended_line(self, event: LaunchEnded, *, with_time: bool = True) -> str:
        """One launch that ended, in one line; a time may stand in a column of its own."""
        record, where = event.record, ""
        ending, exclusion = record.outcome.ending, record.outcome.exclusion
        window = record.outcome.window
        if window is not None:
            where = f"{'starts job' if window.job == record.number else 'job'} {window.job}"
        name = self.name(record.purpose, record.setting, record.outcome.effects, where)
        if exclusion is not None:
            return f"{name}: excluded: {exclusion.text}"
        if isinstance(ending, Failed):
            return f"{name}: {wording.failure(ending)}"
        if isinstance(ending, Stopped):
            said = figures.stopped(self.objective, ending, in_window=window is not None)
            return f"{name}: {said}"
        mark = "  (best so far)" if self.new_best else ""
        return f"{name}: {self._time(ending)}{mark}" if with_time else f"{name}{mark}"

    def name(
        self, purpose: Purpose, setting: Setting, effects: Sequence[Effect] = (), where: str = ""
    ) -> str:
        """A launch by what it is for: ``baseline``, ``warm-up``, or its setting.

        ``where`` says which running job it is a window of: ``job 3``, ``starts job 3``.
        """
        if purpose is Purpose.WARM_UP:
            return "warm-up (not counted)"
        name = "baseline"
        if not setting.is_baseline:
            name = setting_text.assigned(setting, self.spec.knobs if self.spec else (), effects)
        more = ", ".join(text for text in (_AGAIN.get(purpose, ""), where) if text)
        return f"{name} ({more})" if more else name

    @property
    def objective(self) -> ObjectiveSpec:
        """What the figures are."""
        return self.spec.objective if self.spec else ObjectiveSpec()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this run of ``tune`` began."""
        return self.clock() - self.started_s

    @property
    def left_s(self) -> float | None:
        """About how many seconds search and confirmation still take; ``None`` without a budget.

        The search may converge before its budget is used up. The confirmation takes what both
        sides are known to take.
        """
        if self.spec is None or self.spec.budget_s is None:
            return None
        budget_s, confirm_s = self.spec.budget_s, 0.0
        if self.spec.confirm != "none":
            confirm_s = (
                COST_SHARE * budget_s if self.confirm_left_s is None else self.confirm_left_s
            )
        if self.searched_s is None:
            return max(0.0, budget_s - self.spent_s - self.elapsed_s) + confirm_s
        return max(0.0, confirm_s - (self.clock() - self.known_at_s))

    @property
    def ratio(self) -> float | None:
        """How many times faster the best so far is than the baseline."""
        if self.best_s is None or self.baseline_s is None:
            return None
        return self.baseline_s / self.best_s

    def _time(self, ending: Ending) -> str:
        """What came of a launch, for a narrow column."""
        if isinstance(ending, Finished):
            return figures.shown(self.objective, ending.elapsed_s)
        return "stopped" if isinstance(ending, Stopped) else "failed"
