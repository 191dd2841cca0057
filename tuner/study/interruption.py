"""Ctrl-C, SIGTERM and SIGHUP: end what runs, keep what was measured."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from tuner.model import Result

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StudyInterrupted(KeyboardInterrupt):
    """The study was ended from outside; the same command continues it.

    Attributes:
        signal_number: The signal that did it.
        result: What was measured so far; ``None`` where the study had not begun.
    """

    def __init__(self, signal_number: int, result: Result | None) -> None:
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.result = result


class Interruption:
    """While entered, the first signal is noted and the second raises ``KeyboardInterrupt``.

    A note and no exception, so that no commit is torn: the running trial asks
    (:meth:`__call__`) and ends itself. Signals that are ignored (``nohup``) stay ignored.
    Off the main thread, where Python allows no handlers, nothing is installed.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        return self.signal_number is not None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal_number is not None:
            raise KeyboardInterrupt  # asked twice: do not wait for anything
        self.signal_number = number
