"""Stops all processes of a trial on this host for a while, and lets them go on.

They get SIGSTOP, one process after the other, until a scan shows none that runs.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor.cleanup import Remains, send


class Pause:
    """Pauses a trial, whose processes ``remains`` can find."""

    def __init__(self, remains: Remains) -> None:
        self._remains = remains
        self._stopped: dict[tuple[int, int], Stat] = {}
        self._last_stopped: tuple[Stat, ...] = ()  # the processes stopped in the last pause

    def begin(self) -> float:
        """Stop the trial, and return since when all of it stands still, by ``time.monotonic``.

        The last scan, which takes some ms, shows that. The processes of the last pause stop first.
        """
        stats = ((process, procfs.stat(process.pid)) for process in self._last_stopped)
        self._stop([new for old, new in stats if new is not None and new.started == old.started])
        while True:
            still_s = time.monotonic()
            if not self._stop(self._remains.survivors(wait_s=0.0)):
                return still_s

    def _stop(self, processes: Iterable[Stat]) -> bool:
        """Send SIGSTOP to the processes that run; return whether there were any."""
        running = [  # a process that somebody else has stopped is not for us to wake
            process
            for process in processes
            if process.state not in "Tt" and process.key not in self._stopped
        ]
        for process in running:
            send(process, signal.SIGSTOP)
            self._stopped[process.key] = process
        return bool(running)

    def end(self) -> None:
        """Let the trial go on; harmless if it was not paused."""
        for process in self._stopped.values():
            send(process, signal.SIGCONT)
        if self._stopped:
            self._last_stopped = tuple(self._stopped.values())
        self._stopped = {}
