"""A command whose processes are on several hosts, from its start to the proof that all are empty.

The supervisor of this host starts and ends the launcher; the agents end what is elsewhere. On any
notice the launcher is ended first, and never waited for: with a dead link it hangs. Its exit code
is taken only if no host was lost meanwhile, and no ssh of the launcher has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tuner.hosts.process.running import Exit, RunningTrial
from tuner.hosts.remote import connections
from tuner.hosts.remote.hosts import Hosts, RemoteHost
from tuner.model.errors import TunerError

#: A launcher that has lost a host by itself gets this long to end, s.
GRACE_S = 1.0


class TrialOnHosts:
    """A launcher on this host, and what it starts on others.

    Args:
        launcher: It runs.
        hosts: The others.
        folder: Where it is noted how its ssh end, see :mod:`tuner.hosts.remote.connections`.
    """

    def __init__(self, launcher: RunningTrial, hosts: Hosts, folder: Path) -> None:
        self._launcher, self._hosts, self._folder = launcher, hosts, folder
        #: An agent that is lost may have been replaced, but what it looked after is gone.
        self._agents = tuple(hosts.remote.values())
        self._exit: Exit | None = None
        self._is_paused = False
        self._failed_ssh = ""  # which, while the launcher went on
        self._failed_s = 0.0
        self.pid = launcher.pid

    def poll(self) -> Exit | None:
        """The end, or ``None`` while something of it is alive on this host."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        """The end, if it comes in time.

        Raises:
            TunerError: A process cannot be ended, on whichever host.
        """
        if self._exit is None and (self._lost() or self._goes_on_without_ssh()):
            return self.stop()
        if self._exit is None and (ended := self._launcher.wait(timeout_s)) is not None:
            self._exit = self._swept(ended)
        return self._exit

    def stop(self) -> Exit:
        """End the launcher, then all on the other hosts; errors as :meth:`wait`."""
        if self._exit is None:
            self._switch("resume", lambda: None)  # what is paused cannot end by itself
            if self._lost():
                self._launcher.hurry()
            self._exit = self._swept(self._launcher.stop())
        return self._exit

    def pids(self) -> tuple[int, ...]:
        """The live processes on this host."""
        return self._launcher.pids()

    def pause(self) -> None:
        """Stop all its processes on all hosts at once; on return all stand still.

        The processes of other launches on these hosts go on.
        """
        self._switch("pause", self._launcher.pause)

    def resume(self) -> None:
        """Let them go on, on all hosts at once."""
        self._switch("resume", self._launcher.resume)

    def running_s(self) -> float:
        """Return how long it has run so far, without its pauses.

        That is the launcher's time, exact to a millisecond a switch. Each other host pauses and
        resumes some milliseconds earlier or later: as long as a message to it takes, and, at the
        first pause, a scan of all its processes.
        """
        return self._launcher.running_s()

    def pauses(self) -> list[tuple[float, float]]:
        """Return its pauses so far on this host, each from and to a moment of ``time.time``."""
        return self._launcher.pauses()

    def _switch(self, method: Literal["pause", "resume"], launcher: Callable[[], None]) -> None:
        """Pause or resume all that is on other hosts, and meanwhile the launcher."""
        is_pause = method == "pause"
        if self._exit is None and is_pause != self._is_paused:
            self._is_paused = is_pause
            self._hosts.others(method, lambda _: (self._launcher.marker,), launcher)

    def _lost(self) -> list[RemoteHost]:
        """Return the hosts that it was started on and whose agents are lost."""
        return [host for host in self._agents if host.is_lost()]

    def _goes_on_without_ssh(self) -> bool:
        """Return whether an ssh of the launcher failed, and the launcher did not end soon after."""
        if not self._failed_ssh:
            self._failed_ssh = connections.lost(connections.statuses(self._folder))
            self._failed_s = time.monotonic()
        return bool(self._failed_ssh) and time.monotonic() - self._failed_s > GRACE_S

    def _swept(self, ended: Exit) -> Exit:
        """Sweep all hosts; one that has only lost its agent gets another, which does it.

        One that is cut off sweeps itself.
        """
        lost = self._failed_ssh if ended.stopped else ""
        if not ended.stopped and ended.code is not None and ended.code >= 0:
            lost = connections.lost(connections.statuses(self._folder), ended.code)
        killed = self._hosts.call_all("sweep", lambda _: (self._launcher.marker,))
        for host in self._hosts.lost():
            if not host.is_cut_off:
                with suppress(TunerError, KeyboardInterrupt):  # the next launch says it
                    self._hosts.replace(host.name, host.name)
        if lost_hosts := self._lost():
            lost = lost_hosts[0].error().message
        return replace(ended, killed=ended.killed + sum(killed.values()), lost_host=lost)
