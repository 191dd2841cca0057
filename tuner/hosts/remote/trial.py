"""A command whose processes are on several hosts, from its start to the proof that all are empty.

The supervisor of this host starts and ends the launcher; the agents end what is elsewhere. On any
notice the launcher is ended first, and never waited for: with a dead link it hangs. Its exit code
is taken only if no host was lost meanwhile.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tuner.hosts.process.running import Exit, RunningTrial
from tuner.hosts.remote.hosts import HostLostError, Hosts
from tuner.model.errors import TunerError


class TrialOnHosts:
    """A launcher on this host, and what it starts on others."""

    def __init__(self, launcher: RunningTrial, hosts: Hosts) -> None:
        self._launcher, self._hosts = launcher, hosts
        self._exit: Exit | None = None
        self.pid = launcher.pid

    def poll(self) -> Exit | None:
        """The end, or ``None`` while something of it is alive on this host."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        """The end, if it comes in time.

        Raises:
            TunerError: A process cannot be ended, on whichever host.
        """
        if self._exit is None and self._hosts.lost():
            return self.stop()
        if self._exit is None and (ended := self._launcher.wait(timeout_s)) is not None:
            self._exit = self._swept(ended)
        return self._exit

    def stop(self) -> Exit:
        """End the launcher, then all on the other hosts; errors as :meth:`wait`."""
        if self._exit is None:
            if self._hosts.lost():
                self._launcher.hurry()
            self._exit = self._swept(self._launcher.stop())
        return self._exit

    def pids(self) -> tuple[int, ...]:
        """The live processes on this host."""
        return self._launcher.pids()

    def _swept(self, ended: Exit) -> Exit:
        """Sweep all hosts; one that has only lost its agent gets another, which does it.

        One that is cut off sweeps itself.
        """
        try:
            return replace(ended, killed=ended.killed + self._hosts.sweep())
        except HostLostError as error:
            for host in self._hosts.lost():
                if not host.is_cut_off:
                    with suppress(TunerError, KeyboardInterrupt):  # the next launch says it
                        self._hosts.replace(host.name, host.name)
            return replace(ended, lost_host=error.message)
