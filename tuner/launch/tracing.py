"""Where a thread of another process is, by ptrace: it stands still for some microseconds.

Whoever attaches is a thread of ours; where it ends, the kernel lets go of what it held.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import time

_GETREGSET, _DETACH, _SEIZE, _INTERRUPT = 0x4204, 17, 0x4206, 0x4207  # linux/ptrace.h
_PRSTATUS = 1  # linux/elf.h
_WALL = 0x40000000  # linux/wait.h: threads too

#: Where the program counter stands among the registers (struct user_regs_struct), in words.
_COUNTER = {"x86_64": 16, "aarch64": 32}

#: So long a thread has to stop, s: it needs a CPU for it, and others may have them all.
STOP_S = 0.25


class _Span(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def program_counter(thread: int) -> int | None:
    """The address of the thread's next instruction; ``None`` where it ended or did not stop.

    Raises:
        OSError: It may not be looked at.
    """
    word = _COUNTER.get(platform.machine())
    if word is None:
        raise OSError(f"no way to look at threads on {platform.machine()}")
    try:
        _ptrace(_SEIZE, thread)
        _ptrace(_INTERRUPT, thread)
        status = _stopped(thread)
        if status is None:
            return None
        registers = (ctypes.c_ulong * 128)()
        span = _Span(ctypes.addressof(registers), ctypes.sizeof(registers))
        try:
            _ptrace(_GETREGSET, thread, _PRSTATUS, ctypes.addressof(span))
        finally:
            # It may have stopped for a signal of its own, which it is to get.
            own = status >> 16 == 0 and os.WSTOPSIG(status) != signal.SIGTRAP
            _ptrace(_DETACH, thread, 0, os.WSTOPSIG(status) if own else 0)
    except (ProcessLookupError, ChildProcessError):
        return None
    return int(registers[word])


def _stopped(thread: int) -> int | None:
    """The status it stopped with; ``None`` where it ended or takes too long."""
    deadline = time.monotonic() + STOP_S
    pause_s = 50e-6
    while True:
        found, status = os.waitpid(thread, _WALL | os.WNOHANG)
        if found:
            return status if os.WIFSTOPPED(status) else None
        if time.monotonic() > deadline:
            return None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.01)


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    if libc.ptrace(request, thread, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
