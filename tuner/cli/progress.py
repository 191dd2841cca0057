"""How a study is followed while it runs: as timed lines, on a terminal with a bar below them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuner.cli import console
from tuner.cli.tally import Tally
from tuner.knobs import setting_text
from tuner.model import Purpose, figures, wording
from tuner.stats import evidence
from tuner.study.events import Event, LaunchEnded, LaunchStarted, Note, StudyStarted

#: Redraws a second: enough for a clock, too few to cost the trials a core.
REFRESH_HZ = 2


class PlainView:
    """Writes a line for each launch that ends, with the time since the start."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = console.err,
    ) -> None:
        self.tally, self.write = Tally(clock), write

    def __call__(self, event: Event) -> None:
        """Show one event."""
        tally, text = self.tally, ""
        tally.add(event)
        if isinstance(event, StudyStarted) and event.resumed:
            measured = f"{wording.count(event.measured, 'setting')} measured so far"
            text = f"continuing {event.spec.name}: {measured}"
            if event.so_far is None:
                text = f"{event.spec.name} is finished: nothing is launched (--fresh begins anew)"
        elif isinstance(event, LaunchEnded):
            is_trial = event.record.purpose.stage.counts_as_trial
            counts = is_trial and not evidence.is_excluded(event.record)
            place = f"{tally.done}/{tally.max_trials}" if counts else "-"
            left_s = tally.left_s
            left = f"  [about {wording.duration(left_s)} left]" if left_s else ""
            text = f"{place} {tally.line}{left}" if tally.line else ""
        elif isinstance(event, LaunchStarted) and event.purpose is Purpose.WARM_UP:
            text = "warm-up: this launch does not count"
        elif isinstance(event, Note):
            text = event.text
        if text:
            self._write(text)
        if isinstance(event, LaunchEnded) and tally.new_pair:
            self._write(tally.pairs_line)

    def _write(self, text: str) -> None:
        self.write(f"[{wording.clock(self.tally.elapsed_s)}] {text}")


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
        tally = self.tally
        elapsed = wording.clock(tally.elapsed_s)
        if tally.spec is None:
            return Text(elapsed, style="dim")
        left = f"about {wording.duration(tally.left_s)} left" if tally.left_s else ""
        failed = f", {tally.failures} failed" if tally.failures else ""
        bar = Table.grid(padding=(0, 2))
        bar.add_column(width=20)
        bar.add_row(
            ProgressBar(total=max(1, tally.max_trials), completed=tally.done),
            f"{tally.done} of at most {tally.max_trials} settings{failed}",
            Text(f"{elapsed}  {left}", style="dim"),
        )
        lines = [self._best(), self._now()]
        return Group(bar, *(Text(console.harmless(line)) for line in lines if line))

    def _best(self) -> str:
        tally = self.tally
        if tally.best_s is None or tally.best is None:
            return ""
        name = setting_text.assigned(tally.best, tally.spec.knobs if tally.spec else ())
        text = f"best  {figures.shown(tally.objective, tally.best_s)}  {name}"
        if tally.so_far is not None:
            return f"{text}  ({tally.pairs_line})"
        if tally.ratio is not None and not tally.best.is_baseline:
            text += f"  {tally.ratio:.2f} times as fast as the baseline"
        return text

    def _now(self) -> str:
        tally, current = self.tally, self.tally.current
        if current is None:
            return ""
        name = tally.name(current.purpose, current.setting)
        if current.beside is not None:
            sides = (current.setting, current.beside)
            name = " and ".join(tally.name(Purpose.SEARCH, side) for side in sides)
        text = f"now   {wording.clock(tally.clock() - current.started_s)}  {name}"
        iterations = [progress.iteration for progress in current.progress.values()]
        if current.live:
            text += "  in a running job"
        elif any(iterations):
            of = f" of {tally.iterations}" if tally.iterations else ""
            text += f"  iteration {' and '.join(map(str, iterations))}{of}"
        return text


def view(quiet: bool) -> AbstractContextManager[Callable[[Event], None]]:
    """Return the live view on a terminal, timed lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return nullcontext(lambda _: None)
    return LiveView() if console.is_live(sys.stderr) else nullcontext(PlainView())
