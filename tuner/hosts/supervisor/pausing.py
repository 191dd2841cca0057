"""Stops all processes of a trial for a while, and lets them go on.

The freezer of a control group stops what is in it at once, with what is just being started. What
is in none gets SIGSTOP, one process after the other, until a scan shows none that runs.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor.cgroup import Cgroup
from tuner.hosts.supervisor.cleanup import send


class Pause:
    """A pause of a trial.

    Args:
        members: Gives the live processes of the trial.
        group: Its control group.
    """

    def __init__(self, members: Callable[[], Iterable[Stat]], group: Cgroup) -> None:
        self._members, self._group = members, group
        self._stopped: dict[tuple[int, int], Stat] = {}
        self._is_frozen = False

    def begin(self) -> None:
        """Stop the trial; returns once all of it stands still."""
        self._is_frozen = self._group.freeze()
        frozen = self._group.members() if self._is_frozen else set()
        while True:
            # One that somebody else has stopped is not ours to wake.
            running = [
                process
                for process in self._members()
                if process.pid not in frozen
                and process.state not in "Tt"
                and (process.pid, process.started) not in self._stopped
            ]
            if not running:
                return
            for process in running:
                send(process, signal.SIGSTOP)
                self._stopped[process.pid, process.started] = process

    def end(self) -> None:
        """Let the trial go on; harmless if it was not paused."""
        if self._is_frozen:
            self._group.thaw()
        for process in self._stopped.values():
            send(process, signal.SIGCONT)
        self._stopped, self._is_frozen = {}, False
