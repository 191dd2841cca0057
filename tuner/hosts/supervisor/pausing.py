"""Stops all processes of a trial on this host for a while, and lets them go on.

The freezer of a control group stops what is in it at once, with what is just being started. What
is in none gets SIGSTOP, one process after the other, until a scan shows none that runs.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor.cleanup import Remains, send


class Pause:
    """A pause of a trial.

    Args:
        remains: Knows the processes of the trial, and its control group.
    """

    def __init__(self, remains: Remains) -> None:
        self._remains = remains
        self._stopped: dict[tuple[int, int], Stat] = {}
        self._last_stopped: tuple[Stat, ...] = ()  # that were stopped in the last pause
        self._is_frozen = False

    def begin(self) -> float:
        """Stop the trial, and return once a scan has shown that all of it stands still.

        Returns:
            Since when it does, by ``time.monotonic``. The scan, which takes some ms, comes after.
        """
        self._is_frozen = self._remains.group.freeze()
        frozen = self._remains.group.members() if self._is_frozen else set()
        now = ((process, procfs.stat(process.pid)) for process in self._last_stopped)
        self._stop([new for old, new in now if new is not None and new.started == old.started])
        while True:
            still_s = time.monotonic()
            others = self._remains.survivors(wait_s=0.0)
            if not self._stop([process for process in others if process.pid not in frozen]):
                return still_s

    def _stop(self, processes: Iterable[Stat]) -> bool:
        """Send SIGSTOP to those of them that run; return whether any does."""
        running = [  # one that somebody else has stopped is not ours to wake
            process
            for process in processes
            if process.state not in "Tt" and (process.pid, process.started) not in self._stopped
        ]
        for process in running:
            send(process, signal.SIGSTOP)
            self._stopped[process.pid, process.started] = process
        return bool(running)

    def end(self) -> None:
        """Let the trial go on; harmless if it was not paused."""
        if self._is_frozen:
            self._remains.group.thaw()
        for process in self._stopped.values():
            send(process, signal.SIGCONT)
        if self._stopped:
            self._last_stopped = tuple(self._stopped.values())
        self._stopped, self._is_frozen = {}, False
