"""How a study is followed while it runs: as timed lines, or redrawn on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from tuner.cli import console
from tuner.cli.tally import Tally
from tuner.model import Purpose, wording
from tuner.stats import estimates
from tuner.study.events import Event, LaunchEnded, LaunchStarted, Note, StudyStarted


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
            counts = is_trial and not estimates.is_excluded(event.record)
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


def view(quiet: bool) -> AbstractContextManager[Callable[[Event], None]]:
    """Return the live view on a terminal, timed lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return nullcontext(lambda _: None)
    if not console.is_live(sys.stderr):
        return nullcontext(PlainView())
    from tuner.cli.live import LiveView

    return LiveView()
