"""How a study is followed while it runs: as timed lines, on a terminal with a bar below them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuner.cli import console
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
    Setting,
    StudySpec,
    figures,
    wording,
)
from tuner.results.claims import how_compared, ratio_and_interval
from tuner.stats import evidence
from tuner.stats.scaling import SpeedUp
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note, StudyStarted
from tuner.study.pairing import Pairs

#: Redraws a second: enough for a clock, too few to cost the trials a core.
REFRESH_HZ = 2

#: What the line of a launch says of its purpose, if it is not a new setting.
_PURPOSE_NOTES = {
    Purpose.REPEAT: "repeat",
    Purpose.SIMPLIFY: "fewer changes",
    Purpose.CONFIRM: "confirmation",
}

Show = Callable[[Event], None]


# --- one launch, or a pair, in one line -----------------------------------------------------------


def launch_name(
    spec: StudySpec | None,
    purpose: Purpose,
    setting: Setting,
    effects: Sequence[Effect] = (),
    where: str = "",
) -> str:
    """Return what a launch is for (``baseline``, ``warm-up``), or its setting.

    ``where`` says which running job it is a window of: ``job 3``, ``starts job 3``.
    """
    if purpose is Purpose.WARM_UP:
        return "warm-up (not counted)"
    name = "baseline"
    if not setting.is_baseline:
        name = setting_text.assigned(setting, spec.knobs if spec else (), effects)
    notes = ", ".join(filter(None, (_PURPOSE_NOTES.get(purpose, ""), where)))
    return f"{name} ({notes})" if notes else name


def ended_line(spec: StudySpec, record: LaunchRecord) -> str:
    """Return the line of a launch that ended: its name, and its figure or how it ended."""
    where, window = "", record.outcome.window
    if window is not None:
        where = f"{'starts job' if window.job == record.number else 'job'} {window.job}"
    name = launch_name(spec, record.purpose, record.setting, record.outcome.effects, where)
    if record.outcome.exclusion is not None:
        return f"{name}: excluded: {record.outcome.exclusion.text}"
    return f"{name}: {figures.came_to(spec.objective, record.outcome)}"


def _pair_line(spec: StudySpec, first: LaunchRecord, second: LaunchRecord) -> str:
    """Return the line of two launches that ran side by side: the name and figure of both."""
    if second.outcome.exclusion is not None:
        return "side by side: this pair does not count"  # a note says why
    sides, slices = [], 0
    for record in (first, second):
        pair = record.outcome.side_by_side
        slices += 0 if pair is None else len(pair.slices)
        name = launch_name(spec, Purpose.SEARCH, record.setting)
        sides.append(f"{name} {figures.came_to(spec.objective, record.outcome)}")
    return f"side by side: {', '.join(sides)}; {wording.count(slices, 'slice')}"


def _pairs_line(finding: Finding, objective: ObjectiveSpec) -> str:
    """Return what the pairs of the comparison show: ``3 pairs, best 3.41 times faster …``."""
    words = figures.words(objective)
    ratio, interval = ratio_and_interval(SpeedUp.of(finding), ".2f")
    word = words.better if finding.claim == "faster" else f"as {words.good}"
    span = f" ({interval})" if finding.pairs > 1 and interval else ""  # of one it says nothing
    number = wording.count(finding.pairs, "pair")
    return f"{how_compared(finding)}: {number}, best {ratio} times {word}{span}"


# --- a study --------------------------------------------------------------------------------------


@dataclass
class Current:
    """The launch that runs now, or two side by side.

    ``beside`` is the setting of the launch that takes turns with it. ``progress`` is the last entry
    in the log of each launch, by its number; both launches of a pair have one from the start.
    """

    purpose: Purpose
    setting: Setting
    started_s: float
    live: bool = False  # whether it is a window of a running job
    beside: Setting | None = None
    progress: dict[int, Progress] = field(default_factory=dict)


class PlainView:
    """Counts what happens, and writes a line for each launch or pair that ends, with the time."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = console.err,
    ) -> None:
        self._clock, self._write = clock, write
        self._started_s, self._spent_s = clock(), 0.0  # spent: by the search before
        self.spec: StudySpec | None = None
        self.settings_done = self.max_trials = self.failures = 0
        self.best: Setting | None = None
        self.best_s: float | None = None
        self.baseline_s: float | None = None
        self.iterations: int | None = None
        self.current: Current | None = None
        self.finding: Finding | None = None  # of the pairs of the comparison so far
        self.is_searching = True
        self._first_of_pair: LaunchRecord | None = None  # the second launch still runs

    def __call__(self, event: Event) -> None:
        """Count one event and show it."""
        if isinstance(event, StudyStarted):
            self._begin_study(event)
        elif isinstance(event, LaunchStarted):
            self._begin_launch(event)
        elif isinstance(event, LaunchProgress) and self.current is not None:
            self.current.progress[event.number] = event.progress
        elif isinstance(event, LaunchEnded):
            self._end_launch(event)
        elif isinstance(event, Note):
            self._say(event.text)

    def _say(self, text: str) -> None:
        self._write(f"[{wording.clock(self.elapsed_s)}] {text}")

    def _begin_study(self, event: StudyStarted) -> None:
        """Count what a study has from earlier runs, and say that it goes on."""
        self.spec, self.max_trials, result = event.spec, event.spec.trials, event.so_far
        if result is not None:
            self.settings_done, self._spent_s = result.trials, result.search_s
            if result.best is not None:
                self.best, self.best_s = result.best.setting, result.best.elapsed_s
            if result.baseline is not None:
                self.baseline_s = result.baseline.elapsed_s
        if event.resumed and result is None:
            self._say(f"{event.spec.name} is finished: nothing is launched (--fresh begins anew)")
        elif event.resumed:
            settings = f"{wording.count(event.measured, 'setting')} measured so far"
            self._say(f"continuing {event.spec.name}: {settings}")

    def _begin_launch(self, event: LaunchStarted) -> None:
        if event.beside is not None and self.current is not None:
            self.current.beside = event.setting
            self.current.progress = dict.fromkeys((event.beside, event.number), Progress(0, 0.0))
            return
        self.current = Current(event.purpose, event.setting, self._clock(), event.live)
        self.is_searching &= event.purpose.stage.counts_for_budget
        self.max_trials = event.trials
        if event.trial is not None:
            self.settings_done = event.trial - 1
        if event.purpose is Purpose.WARM_UP:
            self._say("warm-up: this launch does not count")

    def _end_launch(self, event: LaunchEnded) -> None:
        """Count a launch that ended, and write its line; a pair has one line, at its second end."""
        record, self.current, spec = event.record, None, self.spec
        assert spec is not None  # a study has begun
        pairs_before = 0 if self.finding is None else self.finding.pairs
        self.finding, is_new_best = event.so_far, False
        is_counted = not evidence.is_excluded(record)  # an excluded setting is launched again
        if is_counted:
            is_new_best = self._count(event)
        pair = record.outcome.side_by_side
        if pair is not None and pair.other > record.number:
            self._first_of_pair = record
            return
        line = ended_line(spec, record) + "  (best so far)" * is_new_best
        if self._first_of_pair is not None:
            line, self._first_of_pair = _pair_line(spec, self._first_of_pair, record), None
        is_trial = is_counted and record.purpose.stage.counts_as_trial
        position = f"{self.settings_done}/{self.max_trials}" if is_trial else "-"
        left = f"  [about {wording.duration(self.left_s)} left]" if self.left_s else ""
        self._say(f"{position} {line}{left}")
        if self.finding is not None and self.finding.pairs > pairs_before:
            self._say(_pairs_line(self.finding, spec.objective))

    def _count(self, event: LaunchEnded) -> bool:
        """Count a launch; return whether its setting is a new best."""
        record, ending, measurement = event.record, event.record.outcome.ending, event.measurement
        if record.purpose.stage.counts_as_trial:
            self.settings_done = min(self.max_trials, self.settings_done + 1)
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

    @property
    def elapsed_s(self) -> float:
        """Seconds since this run of ``tune`` began."""
        return self._clock() - self._started_s

    @property
    def left_s(self) -> float | None:
        """Seconds that the search may still take; ``None`` without a budget or once it is over."""
        if self.spec is None or self.spec.budget_s is None or not self.is_searching:
            return None
        return max(0.0, self.spec.budget_s - self._spent_s - self.elapsed_s)


class LiveView(PlainView):
    """Draws a bar, the best so far, and what runs now below the lines, on stderr."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, screen: Console | None = None
    ) -> None:
        self.screen = screen or console.rich_console(console.Stderr())
        super().__init__(clock, lambda text: self.screen.print(Text(console.harmless(text))))
        self._live = Live(
            get_renderable=self.draw,
            console=self.screen,
            refresh_per_second=REFRESH_HZ,
            transient=True,
        )

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self) -> RenderableType:
        """Return what is redrawn; before the study begins (it may have to wait) a clock."""
        elapsed = wording.clock(self.elapsed_s)
        if self.spec is None:
            return Text(elapsed, style="dim")
        left = f"about {wording.duration(self.left_s)} left" if self.left_s else ""
        failures = f", {self.failures} failed" if self.failures else ""
        bar = Table.grid(padding=(0, 2))
        bar.add_column(width=20)
        bar.add_row(
            ProgressBar(total=max(1, self.max_trials), completed=self.settings_done),
            f"{self.settings_done} of at most {self.max_trials} settings{failures}",
            Text(f"{elapsed}  {left}", style="dim"),
        )
        lines = [self._best_line(self.spec), self._current_line(self.spec)]
        return Group(bar, *(Text(console.harmless(line)) for line in lines if line))

    def _best_line(self, spec: StudySpec) -> str:
        if self.best_s is None or self.best is None:
            return ""
        name = setting_text.assigned(self.best, spec.knobs)
        text = f"best  {figures.shown(spec.objective, self.best_s)}  {name}"
        if self.finding is not None:
            return f"{text}  ({_pairs_line(self.finding, spec.objective)})"
        if self.baseline_s is not None and not self.best.is_baseline:
            text += f"  {self.baseline_s / self.best_s:.2f} times as fast as the baseline"
        return text

    def _current_line(self, spec: StudySpec) -> str:
        """Return the line about the launch that runs, or the two that take turns."""
        current = self.current
        if current is None:
            return ""
        name = launch_name(spec, current.purpose, current.setting)
        if current.beside is not None:
            sides = (current.setting, current.beside)
            name = " and ".join(launch_name(spec, Purpose.SEARCH, side) for side in sides)
        text = f"now   {wording.clock(self._clock() - current.started_s)}  {name}"
        iterations = [progress.iteration for progress in current.progress.values()]
        if current.live:
            text += "  in a running job"
        elif any(iterations):
            total = f" of {self.iterations}" if self.iterations else ""
            text += f"  iteration {' and '.join(map(str, iterations))}{total}"
        return text


def view(quiet: bool) -> AbstractContextManager[Show]:
    """Return the live view on a terminal, timed lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return nullcontext(lambda _: None)
    return LiveView() if console.is_live(sys.stderr) else nullcontext(PlainView())


# --- two studies by pairs -------------------------------------------------------------------------


def view_of_pairs(name: str, spec: StudySpec) -> Show:
    """Return what writes a line for each launch of a study that ended, and for each note."""

    def show(event: Event) -> None:
        if isinstance(event, LaunchEnded):
            console.err(f"{name}: {ended_line(spec, event.record)}")
        elif isinstance(event, Note):
            console.err(f"{name}: {event.text}")

    return show


def pairs_so_far(names: Sequence[str], pairs: Pairs) -> str:
    """Return ``side by side: 3 pairs, new 1.20 times as fast as old (1.12 to 1.29)``."""
    (before, after), gain = names, pairs.gain
    number = wording.count(len(pairs.launches), "pair")
    ratio, interval = ratio_and_interval(gain, ".2f")
    span = f" ({interval})" if interval and len(pairs.launches) > 1 else ""
    return f"{pairs.how}: {number}, {after} {ratio} times as fast as {before}{span}"
