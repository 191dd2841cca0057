"""A command whose processes are on several hosts, from its start to the proof that all are empty.

The supervisor of this host starts and ends the launcher; the agents end the processes on other
hosts. If a host is lost, the launcher is ended first, and never waited for: with a dead link it
hangs. Its exit code counts only if no host was lost meanwhile, and no ssh of the launcher has
failed: the code may hide the loss of a host.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.process.supervised_command import Exit, RunningCommand, SupervisedCommand
from tuner.hosts.remote.remote_hosts import Hosts, RemoteHost
from tuner.model.errors import TunerError
from tuner.model.wording import one_line

#: A launcher that has lost a host by itself gets this long to end, s.
GRACE_S = 1.0

#: Higher statuses are not those of the MPI's daemon: a signal (of a shell), or an error of ssh.
_FROM_OUTSIDE = 128


class TrialOnHosts(RunningCommand):
    """A launcher that runs on this host, and what it starts on others.

    ``ssh_wrapper.sh`` leaves names of files in ``folder``: ``HOST`` once an ssh of the launcher
    runs, ``HOST=STATUS`` once it has ended. Only names are read: a program could write into files.
    """

    def __init__(self, launcher: SupervisedCommand, hosts: Hosts, folder: Path) -> None:
        self._launcher, self._hosts, self._folder = launcher, hosts, folder
        #: The agents at the start: one that replaces a lost one has no processes of this launch.
        self._agents = tuple(hosts.remote.values())
        self._exit: Exit | None = None
        self._is_paused = False
        self._failed_ssh = ""  # which one failed, in words, while the launcher went on
        self._failed_s = 0.0
        self.pid = launcher.pid

    def wait(self, timeout_s: float) -> Exit | None:
        if self._exit is None and (self._lost_hosts() or self._goes_on_without_ssh()):
            return self.stop()
        if self._exit is None and (exit_ := self._launcher.wait(timeout_s)) is not None:
            self._exit = self._sweep_hosts(exit_)
        return self._exit

    def stop(self) -> Exit:
        if self._exit is None:
            if self._is_paused:  # a paused process cannot end; the supervisor resumes those here
                self._hosts.ask_others(self._launcher.marker, LaunchOnHost.resume)()
            if self._lost_hosts():
                self._launcher.hurry()
            self._exit = self._sweep_hosts(self._launcher.stop())
        return self._exit

    def pids(self) -> tuple[int, ...]:
        return self._launcher.pids()

    def running_s(self) -> float:
        return self._launcher.running_s()

    def pauses(self) -> list[tuple[float, float]]:
        return self._launcher.pauses()

    def pause(self) -> None:
        self._switch(is_pause=True)

    def resume(self) -> None:
        self._switch(is_pause=False)

    def _switch(self, *, is_pause: bool) -> None:
        """Pause or resume the launcher and, meanwhile, its processes on other hosts.

        Other hosts pause some milliseconds earlier or later: as long as a message to them takes,
        and, at the first pause, a scan of all their processes.
        """
        if self._exit is not None or is_pause == self._is_paused:
            return
        self._is_paused = is_pause
        method = LaunchOnHost.pause if is_pause else LaunchOnHost.resume
        answers = self._hosts.ask_others(self._launcher.marker, method)
        try:
            (self._launcher.pause if is_pause else self._launcher.resume)()
        finally:
            answers()

    def _lost_hosts(self) -> list[RemoteHost]:
        """Return the hosts that the launch was started on and whose agents are lost."""
        return [host for host in self._agents if host.is_lost()]

    def _goes_on_without_ssh(self) -> bool:
        """Return whether an ssh of the launcher failed, and the launcher did not end soon after."""
        if not self._failed_ssh:
            self._failed_ssh = self._lost_by_ssh(None)
            self._failed_s = time.monotonic()
        return bool(self._failed_ssh) and time.monotonic() - self._failed_s > GRACE_S

    def _lost_by_ssh(self, code: int | None) -> str:
        """Say which host is lost, by the launcher's exit code (``None``: it runs).

        After 0, each ssh must have ended with 0 too. After another code, the daemon on a host may
        have ended with the error of its program.
        """
        statuses: dict[str, int | None] = {}
        with suppress(OSError):
            for name in sorted(os.listdir(self._folder)):  # noqa: PTH208 (ten times a second)
                host, _, text = name.partition("=")
                statuses[one_line(host)] = int(text) if text.isdecimal() else None
        for host, status in statuses.items():
            if status and (not code or status > _FROM_OUTSIDE):
                return f"the host {host} is lost: ssh to it ended with exit code {status}"
        running = [host for host, status in statuses.items() if status is None]
        if running and code == 0:
            return f"a host is lost: the launcher ended before its ssh to {', '.join(running)} did"
        return ""

    def _sweep_hosts(self, exit_: Exit) -> Exit:
        """Sweep all hosts, and return the launcher's exit with what that shows.

        A host that has only lost its agent gets another, which sweeps; one that is cut off sweeps
        itself.
        """
        lost = self._failed_ssh if exit_.stopped else ""
        if not exit_.stopped and exit_.code is not None and exit_.code >= 0:
            lost = self._lost_by_ssh(exit_.code)
        killed = self._hosts.call_all(self._launcher.marker, LaunchOnHost.sweep)
        for host in self._hosts.lost():
            if not host.is_cut_off:
                with suppress(TunerError, KeyboardInterrupt):  # the next launch says it
                    self._hosts.replace(host.name, host.name)
        if lost_hosts := self._lost_hosts():
            lost = lost_hosts[0].error().message
        return replace(exit_, killed=exit_.killed + sum(killed.values()), lost_host=lost)
