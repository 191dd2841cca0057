"""What has happened so far in a study that is followed: each event is added to the tally."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.knobs import setting_text
from tuner.model import (
    Effect,
    Failed,
    Finding,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Progress,
    Purpose,
    Result,
    Setting,
    StudySpec,
    figures,
    wording,
)
from tuner.results.claims import how_compared
from tuner.stats import evidence
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
    """The launch that runs now, or two side by side.

    ``beside`` is the setting of the launch that takes turns with it. ``progress`` is the last entry
    in the log of each launch, by its number; both launches of a pair have one from the start.
    """

    purpose: Purpose
    setting: Setting
    started_s: float
    live: bool = False  # it is a window of a running job
    beside: Setting | None = None
    progress: dict[int, Progress] = field(default_factory=dict)


@dataclass
class Tally:
    """What has happened so far in this run of ``tune``."""

    clock: Callable[[], float]
    spec: StudySpec | None = None
    done: int = 0
    max_trials: int = 0
    best_s: float | None = None
    best: Setting | None = None
    baseline_s: float | None = None
    iterations: int | None = None
    current: Current | None = None
    so_far: Finding | None = None  # by the pairs of the comparison
    new_pair: bool = False
    line: str = ""  # what the last launch or pair came to; empty: one launch of a pair is not told
    _first: LaunchRecord | None = None  # of a pair whose second launch is not told yet
    failures: int = 0
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
            self.spec, self.max_trials = event.spec, event.spec.trials
            if event.so_far is not None:
                self._resume(event.so_far)
        elif isinstance(event, LaunchStarted) and event.beside is not None and self.current:
            self.current.beside = event.setting
            self.current.progress = dict.fromkeys((event.beside, event.number), Progress(0, 0.0))
        elif isinstance(event, LaunchStarted):
            self.current = Current(event.purpose, event.setting, self.clock(), event.live)
            if not event.purpose.stage.counts_for_budget and self.searched_s is None:
                self.searched_s = self.spent_s + self.elapsed_s
            self.max_trials = event.trials
            if event.trial is not None:
                self.done = event.trial - 1
        elif isinstance(event, LaunchProgress) and self.current is not None:
            self.current.progress[event.number] = event.progress
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

    def _ended(self, event: LaunchEnded) -> None:
        record, self.current = event.record, None
        self.confirm_left_s, self.known_at_s = event.confirm_left_s, self.clock()
        pairs_before = 0 if self.so_far is None else self.so_far.pairs
        self.new_pair = event.so_far is not None and event.so_far.pairs > pairs_before
        self.so_far, is_new_best = event.so_far, False
        if not evidence.is_excluded(record):  # else it is launched again
            is_new_best = self._count(event)
        pair = record.outcome.side_by_side
        if pair is not None and pair.other > record.number:
            self._first, self.line = record, ""
            return
        mark = "  (best so far)" if is_new_best else ""
        self.line = f"{self.ended_line(event)}{mark}"
        if self._first is not None:
            self.line, self._first = self._pair_line(self._first, record), None

    def _count(self, event: LaunchEnded) -> bool:
        """Count a launch; return whether its setting is a new best."""
        record, ending, measurement = event.record, event.record.outcome.ending, event.measurement
        if record.purpose.stage.counts_as_trial:
            self.done = min(self.max_trials, self.done + 1)
        if isinstance(ending, Finished):
            self.iterations = ending.iterations
        self.failures += isinstance(ending, Failed)
        if measurement is None or measurement.elapsed_s is None:
            return False
        if record.setting.is_baseline:
            self.baseline_s = measurement.elapsed_s
        if not event.is_best:
            return False
        is_new = measurement.setting != self.best and record.purpose is not Purpose.CONFIRM
        self.best_s, self.best = measurement.elapsed_s, measurement.setting
        return is_new

    def _pair_line(self, first: LaunchRecord, second: LaunchRecord) -> str:
        """Return in one line what two launches came to that ran side by side."""
        if second.outcome.exclusion is not None:
            return "side by side: this pair does not count"  # a note says why
        sides, slices = [], 0
        for record in (first, second):
            pair = record.outcome.side_by_side
            slices += 0 if pair is None else len(pair.slices)
            name = self.name(Purpose.SEARCH, record.setting)
            sides.append(f"{name} {figures.came_to(self.objective, record.outcome)}")
        return f"side by side: {', '.join(sides)}; {wording.count(slices, 'slice')}"

    def ended_line(self, event: LaunchEnded) -> str:
        """One launch that ended, in one line."""
        record, where = event.record, ""
        window, exclusion = record.outcome.window, record.outcome.exclusion
        if window is not None:
            where = f"{'starts job' if window.job == record.number else 'job'} {window.job}"
        name = self.name(record.purpose, record.setting, record.outcome.effects, where)
        if exclusion is not None:
            return f"{name}: excluded: {exclusion.text}"
        return f"{name}: {figures.came_to(self.objective, record.outcome)}"

    @property
    def pairs_line(self) -> str:
        """What the pairs of the comparison show so far: ``3 pairs, best 3.41 times faster …``."""
        so_far, words = self.so_far, figures.words(self.objective)
        if so_far is None:
            return ""
        word = words.better if so_far.low > 1 else f"as {words.good}"
        if so_far.high is None:
            shown = f"at least {so_far.low:.2f} times {word}"
        elif so_far.pairs == 1:  # it proves nothing
            shown = f"{so_far.ratio:.2f} times as {words.good}"
        else:
            shown = f"{so_far.ratio:.2f} times {word} ({so_far.low:.2f} to {so_far.high:.2f})"
        return f"{how_compared(so_far)}: {wording.count(so_far.pairs, 'pair')}, best {shown}"

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
        more = ", ".join(filter(None, (_AGAIN.get(purpose, ""), where)))
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
        confirm_s = self.confirm_left_s
        if confirm_s is None:
            confirm_s = COST_SHARE * self.spec.budget_s
        if self.spec.confirm == "none":
            confirm_s = 0.0
        if self.searched_s is None:
            return max(0.0, self.spec.budget_s - self.spent_s - self.elapsed_s) + confirm_s
        return max(0.0, confirm_s - (self.clock() - self.known_at_s))

    @property
    def ratio(self) -> float | None:
        """How many times faster the best so far is than the baseline."""
        if self.best_s is None or self.baseline_s is None:
            return None
        return self.baseline_s / self.best_s
