"""Looks some ten times a second at what a rank's main thread does; started by ``sitecustomize.py``.

Each look walks up the main thread's frames (``rank_looks.py``): data loading, exchange between
ranks, or its own work; and reads from ``schedstat`` how long the thread ran, waited for a CPU and
slept since the look before. ``TUNE_PROBE_DIR/rank-N.PID.phases`` has the sums, renewed about once
a second, so that a rank that is killed leaves it too. Time in which a module is imported is the
program's start and not counted.

The thread takes no signals, is no thread of ``threading``, is gone during a fork, and imports
nothing. It must run in the oldest Python a user may have: no annotations, nothing newer than 3.6.
"""

import _signal
import _thread
import _warnings
import os
import sys
import time

from rank_looks import Looks

#: The thread's own name, by which ``tune`` leaves it out when it checks if a rank lives.
NAME = "tune-probe"

_PAUSE_S = 0.1  # between two looks, give or take half
_YOUNG_S = 10.0  # a short launch is looked at more often …
_YOUNG = 0.4  # … after this part of the pause
_WRITE_S = 1.0
_SHARE = 500  # a look and a write may take one part in so many of the thread's time
_LEAST_LOOKS = 2  # a helper that is over at once has nothing to say
_STOP_S = 0.2  # a fork or an exit waits for no longer


class Phases:
    """The thread, and the file that it writes."""

    def __init__(self, folder, rank):
        pid = os.getpid()
        self._pid = pid
        self._path = os.path.join(folder, "rank-{}.{}.phases".format(rank, pid))  # noqa: PTH118, UP032
        self._looks = Looks(_thread.get_ident(), pid)
        self._random = pid
        self._wake = self._ended = None
        self._task = ""
        self._ends = False
        self._begun_s = time.monotonic()
        self._write_at_s = self._begun_s + _WRITE_S

    def start(self):
        """Start the thread with every signal blocked: those are for the program's threads."""
        self._wake, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._wake.acquire()
        self._ended.acquire()
        # 32 and 33 are the C library's own.
        signals = [number for number in range(1, _signal.NSIG) if number not in (32, 33)]
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
        try:
            _thread.start_new_thread(self._run, (self._wake, self._ended))
        except RuntimeError:  # no thread to be had: the program needs them more
            self._wake = None
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def pause(self):
        """End the thread; if its disk hangs, waits for a moment at most."""
        wake, ended = self._wake, self._ended
        if wake is not None and os.getpid() == self._pid:
            self._wake = None
            wake.release()
            if ended.acquire(True, _STOP_S):
                _until_gone(self._task)

    def before_fork(self):
        """Be gone, so that the child inherits no lock that the thread holds."""
        if os.getpid() == self._pid:
            self.pause()
            _mind_warnings(self._pid)

    def resume(self):
        """Go on, after a fork, in the process that forked: the child is not looked at."""
        if self._wake is None and os.getpid() == self._pid:
            self.start()

    def stop(self):
        """The program ends: note what came last."""
        self._ends = True
        self.pause()

    def _run(self, wake, ended):
        try:
            self._task = "/proc/" + os.readlink("/proc/thread-self")  # noqa: PTH115
            _call_it(NAME)
            self._follow(wake)
        except Exception:  # the figures are lost; the program must not show it
            pass
        finally:
            ended.release()

    def _follow(self, wake):
        pause_s = _PAUSE_S * _YOUNG
        while not wake.acquire(True, pause_s * (0.5 + self._number())):
            begun_s = _own_s()
            self._looks.look()
            young = time.monotonic() - self._begun_s < _YOUNG_S
            pause_s = max(_PAUSE_S * (_YOUNG if young else 1), _SHARE * (_own_s() - begun_s))
            if time.monotonic() >= self._write_at_s:
                self._write()
        if self._ends:
            self._looks.look()
            self._write()

    def _number(self):
        """A number from 0 to 1 that keeps the looks out of step with the program."""
        self._random = (self._random * 1103515245 + 12345) % (1 << 31)
        return self._random / (1 << 31)

    def _write(self):
        if self._looks.number < _LEAST_LOOKS:
            return
        begun_s = _own_s()
        partial = self._path + "~"
        # Only for the owner, whatever the umask.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, self._looks.text().encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
        os.replace(partial, self._path)  # noqa: PTH105
        self._write_at_s = time.monotonic() + max(_WRITE_S, _SHARE * (_own_s() - begun_s))


def _own_s():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def _call_it(name):
    """Name this thread, for who looks from outside."""
    with open("/proc/thread-self/comm", "w") as file:  # noqa: PTH123
        file.write(name)


def _until_gone(task):
    """Wait for the end of a thread whose last line has run: the kernel still counts it."""
    end_s = time.monotonic() + _STOP_S
    while os.access(task, os.F_OK) and time.monotonic() < end_s:
        time.sleep(1e-4)


def _mind_warnings(pid):
    """Before a fork: have Python warn of the program's own threads, and not of ours.

    Python 3.12 and later count the threads after the fork in the process that forked, 3.13 only
    once ours is back. At the fork there is none, and if the program has none either the
    warning would be false. A filter that ignores keeps no state: no other warning changes.
    """
    if sys.version_info < (3, 12):
        return
    filters = getattr(sys.modules.get("warnings"), "filters", _warnings.filters)
    text = (
        "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."
    )
    ours = [
        ("ignore", text.format(pid, call), DeprecationWarning, None, 0)
        for call in ("fork", "forkpty")
    ]
    alone = len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    if filters[:2] == ours and alone:
        return
    for each in ours:
        if each in filters:
            filters.remove(each)
    if alone:
        filters[:0] = ours


def _is_worker():
    """True in the processes that ``multiprocessing`` starts anew."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        return b"from multiprocessing." in file.read()


def start(folder, rank):
    """Start looking; what stops it is to be called before the process ends."""
    if _is_worker():
        return lambda: None
    phases = Phases(folder, rank)
    phases.start()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=phases.before_fork, after_in_parent=phases.resume)
    return phases.stop
