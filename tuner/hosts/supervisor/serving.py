"""The supervisor: runs one command and ends everything that came of it.

It is a program that needs the standard library alone. :mod:`tuner.hosts.process` starts it, and it
outlives a ``kill -9`` of tune.

The control pipe carries one JSON line (see :func:`tuner.hosts.process.request_of`), then single
bytes: each is a signal number to hand on to the command, or `PAUSE`, or `RESUME`. The end of the
pipe orders the supervisor to end the trial, and a signal meanwhile to do so without waiting. The
status pipe gets one JSON line when the command has started or cannot, one for each pause and each
resumption, with its moment, and one when nothing is left of the trial.

The supervisor kills its descendants (it is a child subreaper, so nothing leaves the tree), and
processes that carry the trial's marker in ``/proc/PID/environ``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tuner.hosts import procfs
from tuner.hosts.supervisor.cleanup import CONNECTIONS, Remains, descendants, remove_folder
from tuner.hosts.supervisor.pausing import Pause

#: What the control pipe carries beside the numbers of signals.
PAUSE, RESUME = 254, 255

#: Time for the command to end after SIGTERM, s. mpirun takes its ranks down in 0.3-1.2 s.
TERM_WAIT_S = 2.0
#: Time for helpers (fork servers, resource trackers) to end after the command did, s.
SETTLE_S = 0.3
#: Time for each ssh of a launcher that ended with 0, s: unless a host was lost, it ends then, too.
SSH_WAIT_S = 3.0

_ENDING_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
#: In the foreground the terminal sends SIGINT to the command itself, so we do not act on it.
_ENDING_IN_FOREGROUND = _ENDING_SIGNALS - {signal.SIGINT}

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """Starts the command of one request, and ends whatever it leaves."""

    def __init__(self, request: dict[str, Any], control: int, report: int) -> None:
        self.request = request
        self.control = control
        self.report = report
        self.main = 0
        self.status: int | None = None
        self.wall_s = 0.0
        self.started_s = 0.0
        self.must_hurry = False  # a second order to end has come
        process = procfs.stat(os.getpid())
        since = process.started if process else 0
        self.remains = Remains(request["marker"], os.getpid(), since)
        self.pausing = Pause(self.remains)
        self.paused_s = 0.0  # the sum of the pauses that are over
        self.paused_at_s = math.inf  # since when it is paused; infinite: it runs
        self.wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def start(self) -> None:
        """Start the command; an ``OSError`` names the program or folder that cannot be used."""
        for number in (signal.SIGQUIT, *_ENDING_SIGNALS):
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores some of them
                signal.signal(number, _do_nothing)
        signal.signal(signal.SIGCHLD, _do_nothing)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans below become our children
        folder = self.request["folder"]
        if folder:
            with contextlib.suppress(OSError):
                os.mkdir(folder, 0o700)  # noqa: PTH102 (pathlib costs start-up time)
                self.request["env"]["TMPDIR"] = folder
        self.oom_kills = _oom_kills()
        self.started_s = time.monotonic()
        self.main = _start(self.request)

    def run(self) -> dict[str, Any]:
        """Wait for the command's end or the order to end it, clean up, report."""
        stopped = self._follow()
        self._switch(RESUME)  # a paused process does not act on SIGTERM
        self._reap()
        if self.status is None:
            os.kill(self.main, signal.SIGTERM)  # our own child, not reaped: the id is its own
            os.kill(self.main, signal.SIGCONT)  # somebody may have stopped it
            self._pause_until(TERM_WAIT_S, lambda: self.status is not None)
        still_running: list[procfs.Stat] = []
        if self.status is not None:
            self._pause_until(SETTLE_S, lambda: not self._reap())
            if not stopped and self.status == 0:
                self._pause_until(SSH_WAIT_S, self._ssh_have_ended)
            if not stopped and self._reap():
                still_running = descendants(procfs.processes(), [os.getpid()])
        # Python's helpers end once they see that nobody needs them.
        left_running = [
            [process.name, _computes(process.pid)]
            for process in still_running
            if b"from multiprocessing." not in procfs.read(f"/proc/{process.pid}/cmdline")
        ]
        killed, left = self.sweep()
        (before, _), (after, is_of_host) = self.oom_kills, _oom_kills()
        oom_kills = max(0, after - before)
        return {
            "code": self.status,
            "wall_s": self.wall_s or self._running_s(),
            "stopped": stopped,
            "killed": killed,
            "left": left,
            "left_running": left_running,
            "oom_kills": 0 if is_of_host else oom_kills,
            "host_oom_kills": oom_kills if is_of_host else 0,
        }

    def _ssh_have_ended(self) -> bool:
        """Return whether each ssh of the launcher has ended, see ``ssh_wrapper.sh``."""
        folder = self.request["env"].get(CONNECTIONS, "").encode("latin-1")
        names = procfs.names(os.fsdecode(folder)) if folder else []
        ended = {name.partition("=")[0] for name in names if "=" in name}
        return all("=" in name or name in ended for name in names)

    def sweep(self) -> tuple[int, list[int]]:
        """Kill what is left, as :meth:`Remains.sweep`."""
        return self.remains.sweep(reap=self._reap, pause=self._pause)

    def _follow(self) -> bool:
        """Wait for the command's end (False) or the order to end it (True)."""
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wake, select.POLLIN)
        parent = None
        with contextlib.suppress(AttributeError, OSError):  # Linux before 5.3
            parent = os.pidfd_open(self.request["parent"])
            poller.register(parent, select.POLLIN)
        if os.getppid() != self.request["parent"]:
            return True
        waits = self.request["waits"]
        while self.status is None or (waits and self._reap()):
            ready = {fd for fd, _ in poller.poll()}
            if parent in ready or (self.control in ready and self._obey()):
                return True
            is_foreground = self.request["foreground"]
            if self._new_signals() & (_ENDING_IN_FOREGROUND if is_foreground else _ENDING_SIGNALS):
                return True
            self._reap()
        if waits:
            self.wall_s = self._running_s()
        return False

    def _obey(self) -> bool:
        """Do what the control pipe says; return whether it has ended."""
        numbers = os.read(self.control, 64)
        for number in numbers:
            if number in {PAUSE, RESUME}:
                _report(self.report, {"at_s": self._switch(number)})
            elif self.status is None:
                os.kill(self.main, number)
        return not numbers

    def _switch(self, number: int) -> float:
        """Pause the trial or let it go on, and return when, by the clock of all processes."""
        is_paused = self.paused_at_s < math.inf
        if number == PAUSE and not is_paused:
            self.paused_at_s = self.pausing.begin()
            return self.paused_at_s
        if number == RESUME and is_paused:
            now_s = time.monotonic()
            self.pausing.end()
            self.paused_s += now_s - self.paused_at_s
            self.paused_at_s = math.inf
            return now_s
        return time.monotonic()

    def _running_s(self) -> float:
        """Return how long the trial has run, without its pauses."""
        return min(time.monotonic(), self.paused_at_s) - self.started_s - self.paused_s

    def _new_signals(self) -> set[int]:
        """Return the signals that came since the last call."""
        try:
            return set(os.read(self.wake, 512))
        except BlockingIOError:
            return set()

    def _reap(self) -> bool:
        """Collect dead children, adopted ones too; True if some are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = os.waitstatus_to_exitcode(status)
                self.wall_s = self._running_s()

    def _pause(self, seconds: float) -> None:
        """Wait this long, or until a signal comes (SIGCHLD, for one)."""
        select.select([self.wake], [], [], max(0.0, seconds))
        self.must_hurry = self.must_hurry or bool(self._new_signals() & _ENDING_SIGNALS)

    def _pause_until(self, limit_s: float, is_done: Callable[[], bool]) -> None:
        end_s = time.monotonic() + limit_s
        self._reap()
        while not is_done() and not self.must_hurry and (left_s := end_s - time.monotonic()) > 0:
            self._pause(left_s)
            self._reap()


def _computes(pid: int) -> bool:
    """Return whether a thread of a process is on a CPU or waits for one."""
    tasks = f"/proc/{pid}/task"
    threads = (procfs.stat(int(name), tasks) for name in procfs.names(tasks))
    return any(thread is not None and thread.state == "R" for thread in threads)


def _start(request: dict[str, Any]) -> int:
    """Start the command of a request, and return its process id."""
    foreground, supervisor = request["foreground"], os.getpid()
    # Signals that ``nohup``, a shell's ``&`` and some CI runners ignore are to be ignored by tune,
    # and by a command in the foreground, but not by a study's launches.
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} if not foreground else set()
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]

    def prepare_child() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # should the supervisor be killed
        if os.getppid() != supervisor:  # it was killed before that
            os._exit(1)

    name = request.get("input", os.devnull).encode("latin-1")
    stdin = None if foreground else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    argv = [word.encode("latin-1") for word in request["argv"]]
    variables = request["env"].items()
    try:
        command = subprocess.Popen(
            argv,
            env={key.encode("latin-1"): value.encode("latin-1") for key, value in variables},
            cwd=request["cwd"].encode("latin-1"),
            stdin=stdin,
            preexec_fn=prepare_child,  # noqa: PLW1509 (there is no other thread)
            process_group=None if foreground else 0,  # a script's `kill 0` must not reach us
        )
    except ValueError as error:  # a NUL, or a "=" in the name of a variable
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), argv[0]) from error
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or argv[0]) from error
    command.returncode = 0  # so that Popen does not wait for it: `_reap` does
    return command.pid


def _oom_kills() -> tuple[int, bool]:
    """Return how many processes the kernel has ended for want of memory, and if on the host.

    The number is that of the narrowest control group around us that counts them, or else of the
    whole host, and then the second value is true; 0 if nothing counts.
    """
    files = [f"{folder}/memory.events" for folder in procfs.cgroup_folders()]
    files += [f"{folder}/memory.oom_control" for folder in procfs.cgroup_folders("memory")]
    files.append("/proc/vmstat")
    for file in files:  # the narrowest group is the first
        if text := procfs.try_read(file):
            lines = [line.split() for line in text.splitlines()]
            kills = (int(line[1]) for line in lines if len(line) == 2 and line[0] == b"oom_kill")
            return sum(kills), file == "/proc/vmstat"
    return 0, False


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _do_nothing(*_: object) -> None:
    """Handle a signal: the wake-up pipe has its number."""


def _report(status: int, line: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # tune has ended
        os.write(status, json.dumps(line).encode() + b"\n")


def main(argv: Sequence[str]) -> None:
    """Serve one request; the words are the descriptors of status and control pipe."""
    status, control = map(int, argv)
    for fd in (status, control):
        os.set_inheritable(fd, False)
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(control, 1 << 16)
        if not chunk:  # tune ended before it had said what to run
            sys.exit(0)
        line += chunk
    supervisor = Supervisor(json.loads(line), control, status)
    try:
        try:
            supervisor.start()
        except OSError as error:
            supervisor.sweep()
            name = (error.filename or b"").decode("latin-1")
            answer = {"errno": error.errno, "name": name}
        else:
            _report(status, {"pid": supervisor.main})
            answer = supervisor.run()
    except BaseException:
        supervisor.sweep()
        raise
    finally:
        if folder := supervisor.request["folder"]:
            remove_folder(folder)
    _report(status, answer)
