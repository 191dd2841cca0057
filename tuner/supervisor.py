"""Runs one command and ends everything that came of it.

A script of the standard library alone, started by :mod:`tuner.process` as
``python -I -S supervisor.py STATUS_FD CONTROL_FD``, so that it outlives a ``kill -9`` of tune.

The control pipe carries one JSON line (argv, env, cwd, marker, foreground; text is bytes
read as latin-1), then single bytes: each is a signal number to hand on to the command. Its
end of file means: end it all. The status pipe gets one JSON line when the command has started or
could not be, and one when nothing is left of it.

What may be killed: descendants of this process (a child subreaper, so nothing leaves the
tree), and processes that carry the trial's marker in ``/proc/PID/environ``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

#: The environment variable that marks every process of a trial.
MARKER = "TUNE_TRIAL"

#: Time for the command to end after SIGTERM, s. mpirun takes its ranks down in 0.3-1.2 s.
TERM_WAIT_S = 2.0
#: Time for helpers (fork servers, resource trackers) to end after the command did, s.
SETTLE_S = 0.3
#: After this long, what SIGKILL has not ended (it sits in the kernel) is reported instead, s.
GIVE_UP_S = 60.0

#: What Open MPI 5 and 4 and MPICH call their files; those of other programs may be for others.
_SEGMENTS = (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/dev/shm/mpich_shm_")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_ENDING_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


# --- reading /proc -----------------------------------------------------------------------


class Process(NamedTuple):
    """A row of the process table; ``(pid, start)`` names a process for good."""

    pid: int
    start: int  # clock ticks since boot
    parent: int
    dead: bool  # a zombie: it only waits to be reaped


def _read(path: str) -> bytes:
    """The content of a file of /proc; empty where the process is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        chunks = []
        while chunk := os.read(fd, 1 << 16):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:  # it ended meanwhile
        return b""
    finally:
        os.close(fd)


def look_up(pid: int) -> Process | None:
    """The process of this id, or ``None`` where there is none."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat[stat.rfind(b")") + 2 :].split()  # the name before may hold blanks and brackets
    return Process(pid, int(fields[19]), int(fields[1]), fields[0] in b"ZXx")


def processes() -> list[Process]:
    """Every process that this one can see."""
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    return [found for pid in pids if (found := look_up(pid)) is not None]


def descendants(table: Iterable[Process], roots: Iterable[int]) -> list[Process]:
    """The live processes below ``roots``, which are left out themselves."""
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = list(roots)
    seen = set(queue)
    while queue:
        below = [child for child in children.get(queue.pop(), ()) if child.pid not in seen]
        seen.update(child.pid for child in below)
        queue.extend(child.pid for child in below)
        found.extend(child for child in below if not child.dead)
    return found


def survivors(
    marker: str, root: int, since: int, seen: Collection[tuple[int, int]] = ()
) -> list[Process]:
    """What is alive of a trial: below ``root``, carrying the marker or ``seen``, below those.

    ``since`` is the start of the trial in clock ticks: nothing older belongs to it. ``seen``
    are (id, start) of processes that once were below ``root``: where it was killed, a daemon
    without the marker is known by nothing else.
    """
    table = processes()
    wanted = os.fsencode(f"{MARKER}={marker}")
    carriers = [
        process
        for process in table
        if process.start >= since
        and not process.dead
        and (
            (process.pid, process.start) in seen
            or wanted in _read(f"/proc/{process.pid}/environ").split(b"\0")
        )
    ]
    below = descendants(table, [root, *(process.pid for process in carriers)])
    spared = {root, os.getpid()}
    return [process for process in {*carriers, *below} if process.pid not in spared]


def send(process: Process, number: int) -> bool:
    """Signal exactly this process, never a later one of the same id; False where it is gone."""
    handle = None
    try:
        if hasattr(os, "pidfd_open"):
            try:
                handle = os.pidfd_open(process.pid)
            except ProcessLookupError:
                return False
            except OSError:  # Linux before 5.3
                handle = None
        current = look_up(process.pid)
        if current is None or current.start != process.start:
            return False
        if handle is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def sweep(
    marker: str,
    root: int,
    since: int,
    *,
    seen: Collection[tuple[int, int]] = (),
    reap: Callable[[], bool] = lambda: False,
    pause: Callable[[float], object] = time.sleep,
    give_up_s: float = GIVE_UP_S,
) -> tuple[int, list[int]]:
    """Kill what is left of a trial until a scan proves that nothing is.

    ``marker``, ``root``, ``since`` and ``seen`` are those of :func:`survivors`.
    ``reap`` collects dead children and says whether some are left: with a subreaper "none"
    is the proof for the whole tree, whatever the scan may have missed.

    Returns:
        How many were killed, and the ids of those that SIGKILL could not end.
    """
    killed: set[tuple[int, int]] = set()
    deadline, delay_s = time.monotonic() + give_up_s, 0.001
    while True:
        children = reap()
        left = survivors(marker, root, since, seen)
        if not left and not children:
            return len(killed), []
        if time.monotonic() > deadline:
            return len(killed), [process.pid for process in left]
        killed.update((each.pid, each.start) for each in left if send(each, signal.SIGKILL))
        pause(delay_s)
        delay_s = min(2 * delay_s, 0.1)


# --- memory that outlives its processes ---------------------------------------------------


def shared_segments(root: int) -> set[tuple[bytes, int]]:
    """The MPI's files in /dev/shm that processes below ``root`` use: (path, inode).

    A killed MPI leaves them behind, and MPICH does so on SIGTERM too: some MB a rank.
    """
    found = set()
    for process in descendants(processes(), [root]):
        for line in _read(f"/proc/{process.pid}/maps").splitlines():
            fields = line.split(None, 5)  # address, permissions, offset, device, inode, path
            if len(fields) == 6 and fields[5].startswith(_SEGMENTS):
                found.add((fields[5], int(fields[4])))
    return found


def remove(segments: Iterable[tuple[bytes, int]]) -> None:
    """Remove those files, unless somebody has made them anew."""
    for path, inode in segments:
        with contextlib.suppress(OSError):  # gone already, or marked "(deleted)"
            if os.stat(path).st_ino == inode:  # noqa: PTH116 (pathlib costs start-up time)
                os.unlink(path)  # noqa: PTH108


# --- the supervisor ----------------------------------------------------------------------


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Supervisor:
    """One command from its start to the proof that nothing of it is left."""

    def __init__(self, request: dict[str, Any], control: int) -> None:
        self.request = request
        self.control = control
        self.main = 0
        self.status: int | None = None
        self.wall_s = 0.0
        self.started_s = 0.0
        self.wake, wake_end = os.pipe()
        for fd in (self.wake, wake_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any]:
        """Start the command, wait for its end or the order to end it, clean up, report."""
        stopped = self._follow()
        segments = shared_segments(os.getpid()) if self._reap() else set()
        if self.status is None:
            os.kill(self.main, signal.SIGTERM)  # our own child, not reaped: surely this one
            os.kill(self.main, signal.SIGCONT)  # a stopped one would not get to see it
            self._pause_until(TERM_WAIT_S, lambda: self.status is not None)
        if self.status is not None:
            self._pause_until(SETTLE_S, lambda: not self._reap())
        killed, left = self.sweep()
        remove(segments)
        return {
            "code": self.status,
            "wall_s": self.wall_s or time.monotonic() - self.started_s,
            "stopped": stopped,
            "killed": killed,
            "left": left,
        }

    def sweep(self) -> tuple[int, list[int]]:
        """Kill what is left; see :func:`sweep`."""
        me = look_up(os.getpid())
        return sweep(
            self.request["marker"],
            os.getpid(),
            me.start if me else 0,
            reap=self._reap,
            pause=self._pause,
        )

    def start(self) -> OSError | None:
        """Fork and exec the command; the error where that cannot be done."""
        for number in (signal.SIGCHLD, signal.SIGQUIT, *_ENDING_SIGNALS):
            signal.signal(number, lambda *_: None)  # only to be told by the wake-up pipe
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        problem, problem_end = os.pipe()
        supervisor = os.getpid()
        self.started_s = time.monotonic()
        self.main = os.fork()
        if self.main == 0:
            self._become_command(supervisor, problem_end)
        os.close(problem_end)
        text = os.read(problem, 4096).decode()
        os.close(problem)
        if not text:
            return None
        code, _, name = text.partition(" ")
        return OSError(int(code), os.strerror(int(code)), name)

    def _become_command(self, supervisor: int, problem_end: int) -> None:
        """In the child: exec, or write ``ERRNO NAME`` to the pipe."""
        argv, env = self.request["argv"], self.request["env"]
        name = self.request["cwd"]
        try:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs do not
                signal.signal(number, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # should the supervisor be killed
            if os.getppid() != supervisor:
                os._exit(1)
            if not self.request["foreground"]:
                os.setpgid(0, 0)  # `kill 0` in a script must not reach the supervisor
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(name.encode("latin-1"))
            name = argv[0]
            os.execvpe(
                argv[0].encode("latin-1"),
                [each.encode("latin-1") for each in argv],
                {key.encode("latin-1"): value.encode("latin-1") for key, value in env.items()},
            )
        except OSError as error:
            os.write(problem_end, f"{error.errno} {name}".encode())
        except ValueError:  # a NUL, or a "=" in the name of a variable
            os.write(problem_end, f"{errno.EINVAL} {name}".encode())
        finally:
            os._exit(127)

    def _follow(self) -> bool:
        """Wait for the command's end (False) or the order to end it (True)."""
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wake, select.POLLIN)
        parent = _watch(self.request["parent"])
        if parent is not None:
            poller.register(parent, select.POLLIN)
        if os.getppid() != self.request["parent"]:
            return True
        while self.status is None:
            ready = {fd for fd, _ in poller.poll()}
            if parent in ready or (self.control in ready and self._obey()):
                return True
            if self._woken() & (_ENDING_SIGNALS if not self.request["foreground"] else _REMOTE):
                return True
            self._reap()
        return False

    def _obey(self) -> bool:
        """Hand the signals asked for on to the command; True at the end of the pipe."""
        numbers = os.read(self.control, 64)
        for number in numbers:
            if self.status is None:
                os.kill(self.main, number)
        return not numbers

    def _woken(self) -> set[int]:
        """The signals that came since the last call."""
        try:
            return set(os.read(self.wake, 512))
        except BlockingIOError:
            return set()

    def _reap(self) -> bool:
        """Collect dead children, adopted ones too; True where some are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                self.status = os.waitstatus_to_exitcode(status)
                self.wall_s = time.monotonic() - self.started_s

    def _pause(self, seconds: float) -> None:
        """Wait so long, or until a signal comes (a child that ended)."""
        select.select([self.wake], [], [], max(0.0, seconds))
        self._woken()

    def _pause_until(self, limit_s: float, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + limit_s
        self._reap()
        while not done() and (left_s := deadline - time.monotonic()) > 0:
            self._pause(left_s)
            self._reap()


#: In the foreground the terminal sends SIGINT to the command itself, so it is not ours to act on.
_REMOTE = _ENDING_SIGNALS - {signal.SIGINT}


def _watch(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; ``None`` before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _request(control: int) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(control, 1 << 16)
        if not chunk:  # tune ended before it had said what to run
            sys.exit(0)
        line += chunk
    request: dict[str, Any] = json.loads(line)
    return request


def _report(status: int, line: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # tune is gone: nobody to tell
        os.write(status, json.dumps(line).encode() + b"\n")


def main(argv: Sequence[str]) -> None:
    """Serve one request."""
    status, control = int(argv[1]), int(argv[2])
    for fd in (status, control):
        os.set_inheritable(fd, False)
    supervisor = Supervisor(_request(control), control)
    try:
        error = supervisor.start()
        if error is not None:
            _report(status, {"errno": error.errno, "name": error.filename})
            return
        _report(status, {"pid": supervisor.main})
        _report(status, supervisor.run())
    except BaseException:
        supervisor.sweep()
        raise


if __name__ == "__main__":
    main(sys.argv)
