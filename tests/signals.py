"""Which signals a process ignores or blocks."""

from __future__ import annotations

import signal


def of_status(status: str, key: str) -> set[int]:
    """The signals in line ``key`` (``SigIgn``, ``SigBlk``) of a ``/proc/PID/status``.

    Two that the C library keeps for itself are left out: its ``posix_spawn`` ignores them in the
    program that it starts (make, a CI runner), and no function of the library changes that.
    """
    mask = int(status.split(f"{key}:")[1].split(maxsplit=1)[0], 16)
    return {number for number in signal.valid_signals() if mask & 1 << number - 1}
