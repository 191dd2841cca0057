"""A command in the foreground, with this process's own terminal."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.hosts.process.request import request_of
from tuner.hosts.process.running import RunningTrial

#: What `tune exec` hands on to its command.
_FORWARDED = frozenset(
    {
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
_SI_KERNEL = 0x80  # asm-generic/siginfo.h: sent by the kernel, as the terminal's Ctrl-C is


def execute(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command in the foreground, with this process's terminal; hand signals on to it.

    For the main thread of a program that has nothing else to do.

    Returns:
        Its exit status, 128 + n where signal n ended it. Nothing of it is left running.

    Raises:
        OSError: It cannot be started.
    """
    waited = _FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        request = request_of(argv, env, Path.cwd(), foreground=True)
        running = RunningTrial(request, output=None, error=None)
        while (ended := running.poll()) is None:
            seen = signal.sigwaitinfo(waited)
            # Ctrl-C and Ctrl-\ reach the command itself: twice would make mpirun give up at once
            if seen.si_signo in _FORWARDED and seen.si_code != _SI_KERNEL:
                running.forward(seen.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ended.code is None:
        return 128 + signal.SIGKILL
    return ended.code if ended.code >= 0 else 128 - ended.code
