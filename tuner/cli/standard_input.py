"""The standard input of `tune`, a file: rank 0 of each launch reads it from its start."""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import stat
import termios
from pathlib import Path

from tuner.model.errors import UsageError

_INPUT = "/proc/self/fd/0"

#: A pipe counts as empty (those of ssh and cron are) if nothing is written to it in so long, s.
FIRST_WRITE_S = 1.0


def file_at_input() -> Path | None:
    """Return the file at standard input; ``None`` if it is empty, a terminal or a device."""
    status, path = os.fstat(0), Path(_INPUT).readlink()
    has_content = bool(status.st_size)
    if stat.S_ISREG(status.st_mode) and path.exists() and path.samefile(_INPUT):
        return path if has_content else None
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        poller = select.poll()
        poller.register(0, select.POLLIN)
        poller.poll(FIRST_WRITE_S * 1e3)
        has_content = any(fcntl.ioctl(0, termios.FIONREAD, bytes(4)))  # the bytes to be read
    elif not stat.S_ISREG(status.st_mode):
        return None
    if has_content:
        raise UsageError(
            "standard input is a pipe or a here-document, and each launch must read it anew",
            "put it into a file and type `tune … < FILE`, or give none with `< /dev/null`",
        )
    return None


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
