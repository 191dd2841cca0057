"""What the user gave `tune` to read: rank 0 of each launch reads it in its place."""

from __future__ import annotations

import hashlib
import os
import select
import stat
from pathlib import Path

from tuner.model.errors import UsageError

#: A pipe into which nobody has written by then is empty, as those of ssh and cron are, s.
FIRST_S = 1.0
#: The writer of a pipe may pause for so long, s.
PAUSE_S = 60.0
#: More is not kept, bytes.
MOST = 64 << 20

_HINT = "put it into a file and type `tune … < FILE`, or give none with `< /dev/null`"


def read(descriptor: int = 0, *, first_s: float = FIRST_S, pause_s: float = PAUSE_S) -> str | bytes:
    """The path of a file that stands at the input, or what a pipe holds; empty: nothing.

    A terminal and devices have nothing. A file without a name (a here-document) is read.

    Raises:
        UsageError: A pipe goes on without an end, or holds more than 64 MiB.
    """
    status = os.fstat(descriptor)
    if (path := file_at(descriptor)) is not None:
        return str(path) if status.st_size else ""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
            or stat.S_ISSOCK(status.st_mode)):  # fmt: skip
        return ""
    parts: list[bytes] = []
    while _is_ready(descriptor, pause_s if parts else first_s):
        parts.append(os.read(descriptor, 1 << 20))
        if not parts[-1]:
            return b"".join(parts)
        if sum(map(len, parts)) > MOST:
            raise UsageError(f"standard input holds more than {MOST >> 20} MiB", _HINT)
    if not parts:
        return ""
    size = sum(map(len, parts))
    raise UsageError(
        f"standard input is a pipe that gave {size} bytes and then nothing for {pause_s:g} s,"
        " and has no end",
        _HINT,
    )


def file_at(descriptor: int = 0) -> Path | None:
    """Return the path of the file that stands at the input; ``None``: no file that has a name."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    path = Path(f"/proc/self/fd/{descriptor}").readlink()
    return path if path.exists() and path.samefile(f"/proc/self/fd/{descriptor}") else None


def digest(path: str) -> str:
    """Return the SHA-256 of a file at the input; empty if that is larger than 64 MiB."""
    with Path(path).open("rb") as file:
        is_large = os.fstat(file.fileno()).st_size > MOST
        return "" if is_large else hashlib.file_digest(file, "sha256").hexdigest()


def _is_ready(descriptor: int, limit_s: float) -> bool:
    """Wait until there is something to read, or its end."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(limit_s * 1e3))
