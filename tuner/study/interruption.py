"""Ctrl-C, SIGTERM and SIGHUP: end what runs, keep what was measured."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tuner.hosts import process
from tuner.model import Result

#: Takes the place of a signal once the time of a study is over.
TIME_IS_OVER = signal.SIGALRM

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StudyInterrupted(KeyboardInterrupt):
    """The study was ended by a signal, with its result so far; the same command continues it."""

    def __init__(self, signal_number: int, result: Result | None) -> None:
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.result = result


class Interruption:
    """While entered, the first signal is noted and the second raises ``KeyboardInterrupt``.

    A launch looks whether there was a signal (:meth:`__call__`) and ends itself, so no write is
    torn. The second signal leaves no time for that, but a :meth:`held` block ends first; any later
    one only hurries. Signals that are ignored (``nohup``) stay ignored. Off the main thread Python
    allows no handlers, so nothing is installed. After ``limit_s`` the signal is `TIME_IS_OVER`.
    """

    def __init__(self, limit_s: float = math.inf) -> None:
        self.signal_number: int | None = None
        self._end_s = time.monotonic() + limit_s
        self._previous: dict[signal.Signals, Any] = {}
        self._has_second = False
        self._must_raise = False
        self._hold_count = 0

    def __call__(self) -> bool:
        if self.signal_number is None and time.monotonic() > self._end_s:
            self.signal_number = TIME_IS_OVER
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

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the second signal raise only at the end of the block: what it writes is whole."""
        self._hold_count += 1
        try:
            yield
        finally:
            self._hold_count -= 1
        if self._must_raise and not self._hold_count:
            self._must_raise = False
            raise KeyboardInterrupt

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal_number is None:
            self.signal_number = number
            return
        process.hurry()
        if self._has_second:  # nothing may break what cleans up after the second
            return
        self._has_second = True
        if not self._hold_count:
            raise KeyboardInterrupt  # the user is in a hurry: do not wait for anything
        self._must_raise = True
