"""Starts a thread of the probe in a rank: it takes no signals, and is not in ``threading``."""

import _signal
import _thread
import _warnings
import os
import sys

#: The thread's name, by which ``tune`` leaves it out when it checks if a rank lives.
NAME = "tune-probe"


def start(run):
    """Call a function in a thread; what it raises ends the thread, and the program goes on.

    Returns:
        A lock that is held until the thread has ended.
    """
    running = _thread.allocate_lock()
    running.acquire()

    def run_named():
        try:
            with open("/proc/thread-self/comm", "w") as file:  # the name that other processes see
                file.write(NAME)
            run()
        except Exception:  # the program must not show it
            pass
        finally:
            running.release()

    # Signals are for the program's threads; 32 and 33 are the C library's own.
    signals = [number for number in range(1, _signal.NSIG) if number not in (32, 33)]
    old_mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
    try:
        _thread.start_new_thread(run_named, ())
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, old_mask)
    if sys.version_info >= (3, 12):
        os.register_at_fork(before=_hush_fork)
    return running


def _hush_fork():
    """Silence the warning of Python 3.12 and later of a fork beside our thread, which is harmless.

    This is done before each fork: the program may have put other filters first since the last one.
    """
    filters = getattr(sys.modules.get("warnings"), "filters", _warnings.filters)
    for call in ("fork", "forkpty"):
        text = (
            f"This process (pid={os.getpid()}) is multi-threaded, "
            f"use of {call}() may lead to deadlocks in the child."
        )
        ignoring = ("ignore", text, DeprecationWarning, None, 0)  # of any module, in any line
        if ignoring not in filters[:2]:
            filters.insert(0, ignoring)
