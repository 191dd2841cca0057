"""Progress as timed lines: for logs, pipes and terminals that cannot redraw."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuner.cli import console
from tuner.cli.tally import Tally
from tuner.model import Purpose, wording
from tuner.stats.estimates import TRIALS, is_excluded
from tuner.study.events import Event, LaunchEnded, LaunchStarted, Note


class PlainView:
    """Writes a line for each launch that ends, with the time since the start."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = console.err,
    ) -> None:
        self.tally = Tally(clock)
        self.write = write

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Show one event."""
        self.tally.add(event)
        if isinstance(event, LaunchEnded):
            self._line(f"{self._place(event)} {self.tally.ended_line(event)}{self._left()}")
        elif isinstance(event, LaunchStarted) and event.purpose is Purpose.WARM_UP:
            self._line("warm-up: one launch that is thrown away")
        elif isinstance(event, Note):
            self._line(event.text)

    def _place(self, event: LaunchEnded) -> str:
        if event.record.purpose not in TRIALS or is_excluded(event.record):
            return "-"
        return f"{self.tally.done}/{self.tally.asked}"

    def _left(self) -> str:
        left_s = self.tally.left_s
        return "" if left_s is None else f"  [at most {wording.duration(left_s)} left]"

    def _line(self, text: str) -> None:
        self.write(f"[{wording.clock(self.tally.elapsed_s)}] {text}")


class QuietView:
    """Shows nothing (``--quiet``)."""

    def __enter__(self) -> QuietView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Show nothing."""
