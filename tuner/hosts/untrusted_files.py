"""The one way to read or make a file that a program under test may have written or replaced.

Such a file can be anything by the time it is read: a FIFO, which blocks for ever, a device without
an end, a link to somewhere else, a sparse file of any size. What cannot be used is an ``OSError``.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def open_untrusted(path: Path, *, follows_links: bool = False) -> BinaryIO:
    """Open a plain file for reading, without waiting, and without following a link by default."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follows_links:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def read_untrusted(path: Path, most_bytes: int) -> bytes:
    """Return the first ``most_bytes`` of a file."""
    with open_untrusted(path) as file:
        return file.read(most_bytes)


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last ``most_bytes`` of a file."""
    with open_untrusted(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
        return file.read(most_bytes)


def create(path: Path, flags: int = 0) -> int:
    """Make a new file for its owner only, in place of whatever lies there; return its descriptor.

    What a link or a pipe in its place leads to is not touched. A folder in the way is an error.
    """
    path.unlink(missing_ok=True)
    flags |= os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def overwrite(path: Path) -> int:
    """Open a plain file to write over what is in it, so that the room that it takes stays taken.

    Whatever else lies there is replaced by a new file, as by :func:`create`.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):  # missing, a link, a FIFO, not ours to write
        descriptor = os.open(path, flags)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    return create(path)


def sync_names(folder: Path) -> None:
    """Have the names of the files in a folder last a power failure (fsync(2))."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only (0700).

    What exists is left as it is; if something else is in the way, that is an error.
    """
    # mkdir(parents=True) would give its mode to the last folder only
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        with suppress(FileExistsError):  # another process was quicker
            missing.mkdir(mode=0o700)
    path.mkdir(mode=0o700, exist_ok=True)  # a file in the way is an error
