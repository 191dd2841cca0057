"""A thread of ours in a rank: it takes no signals, and is no thread of ``threading``."""

import _signal
import _thread
import _warnings
import os
import sys

#: The thread's own name, by which ``tune`` leaves it out when it checks if a rank lives.
NAME = "tune-probe"


def start(run):
    """Call a function in a thread; what it raises ends the thread, and the program goes on.

    Returns:
        A lock that is held until the thread has ended.
    """
    ended = _thread.allocate_lock()
    ended.acquire()

    def named():
        try:
            with open("/proc/thread-self/comm", "w") as file:  # for who looks from outside
                file.write(NAME)
            run()
        except Exception:  # the program must not show it
            pass
        finally:
            ended.release()

    # Signals are for the program's threads; 32 and 33 are the C library's own.
    signals = [number for number in range(1, _signal.NSIG) if number not in (32, 33)]
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, signals)
    try:
        _thread.start_new_thread(named, ())
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    if sys.version_info >= (3, 12):
        os.register_at_fork(before=_hush_fork)
    return ended


def _hush_fork():
    """Python 3.12 and later warn of a fork beside a thread, which ours is: the child needs no lock.

    The program may have put other filters first since the last fork.
    """
    filters = getattr(sys.modules.get("warnings"), "filters", _warnings.filters)
    for call in ("fork", "forkpty"):
        text = (
            f"This process (pid={os.getpid()}) is multi-threaded, "
            f"use of {call}() may lead to deadlocks in the child."
        )
        ours = ("ignore", text, DeprecationWarning, None, 0)
        if ours not in filters[:2]:
            filters.insert(0, ours)
