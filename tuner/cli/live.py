"""Progress that redraws itself on a terminal, made with rich."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tuner.cli import console
from tuner.cli.tally import Tally
from tuner.knobs import setting_text
from tuner.model import Purpose, figures, wording
from tuner.study.events import Event, Note

#: Redraws a second: enough for a clock, too few to cost the trials a core.
REFRESH_HZ = 2

#: The bar's columns, and those that the words beside it take at most.
LEAST_BAR, MOST_BAR, BESIDE_BAR = 8, 30, 66


def _text(text: str, style: str = "") -> Text:
    """Text for rich that cannot steer the terminal."""
    return Text(console.harmless(text), style=style)


class LiveView:
    """A progress bar, the best so far, and what runs now; drawn on stderr."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, screen: Console | None = None
    ) -> None:
        self.tally = Tally(clock)
        self.screen = screen or console.rich_console(sys.stderr)
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

    def __call__(self, event: Event) -> None:
        """Fold one event in; the next redraw shows it."""
        self.tally.add(event)
        if isinstance(event, Note):
            self.screen.print(_text(event.text))

    def draw(self) -> RenderableType:
        """The whole view as it is now; nothing before the study begins (it may have to wait)."""
        if self.tally.spec is None:
            return _text(wording.clock(self.tally.elapsed_s), style="dim")
        # The last column takes what is left and wraps; else rich would cut the narrow ones.
        grid = Table.grid(padding=(0, 2), expand=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(overflow="fold", ratio=1)
        self._add_times(grid)
        self._add_current(grid)
        for number, line in enumerate(reversed(self.tally.last)):
            grid.add_row("" if number else "last", "", _text(line, style="dim"))
        return Group(self._bar(), grid)

    def _bar(self) -> RenderableType:
        tally = self.tally
        left = f"about {wording.duration(tally.left_s)} left" if tally.left_s else ""
        failed = f", {tally.failures} failed" if tally.failures else ""
        bar = Table.grid(padding=(0, 2))
        bar.add_column(width=max(LEAST_BAR, min(MOST_BAR, self.screen.width - BESIDE_BAR)))
        bar.add_column(no_wrap=True)
        bar.add_column(no_wrap=True, style="dim")
        bar.add_row(
            ProgressBar(total=max(1, tally.max_trials), completed=tally.done),
            f"{tally.done} of at most {tally.max_trials} settings{failed}",
            f"{wording.clock(tally.elapsed_s)}  {left}",
        )
        return bar

    def _add_times(self, grid: Table) -> None:
        tally, own = self.tally, "your environment as it is"
        if tally.best_s is not None and tally.best is not None:
            name = setting_text.assigned(tally.best, tally.spec.knobs if tally.spec else ())
            line = _text(name, style="bold green")
            if tally.so_far is None and tally.ratio is not None and not tally.best.is_baseline:
                line.append(f"   {tally.ratio:.2f} times as fast as the baseline", "not bold")
            best = _text(figures.shown(tally.objective, tally.best_s), style="bold green")
            grid.add_row("best", best, line)
        if tally.baseline_s is not None:
            grid.add_row("baseline", figures.shown(tally.objective, tally.baseline_s), own)
        elif tally.baseline_stopped is not None:
            time = figures.projected(tally.objective, tally.baseline_stopped)
            grid.add_row("baseline", time, f"{own}; stopped early")
        elif tally.baseline_failed:
            grid.add_row("baseline", "failed", "compared with the first guess that works")
        if tally.so_far is not None:
            grid.add_row("compared", "", _text(tally.pairs_line, style="bold green"))

    def _add_current(self, grid: Table) -> None:
        current = self.tally.current
        if current is None:
            return
        name = self.tally.name(current.purpose, current.setting)
        if current.beside is not None:
            sides = (current.setting, current.beside)
            names = [self.tally.name(Purpose.SEARCH, side) for side in sides]
            name = f"side by side: {' and '.join(names)}"
        line = _text(name, style="cyan")
        if current.live:
            line.append("   in a running job", style="default")
        elif any(progress.iteration for progress in current.progress.values()):
            of = f" of {self.tally.iterations}" if self.tally.iterations else ""
            last = [str(progress.iteration) for progress in current.progress.values()]
            which = "iterations" if len(last) > 1 else "iteration"
            line.append(f"   {which} {' and '.join(last)}{of}", style="default")
        grid.add_row("now", wording.clock(self.tally.clock() - current.started_s), line)
