"""The file of the lock: where it is, and how it is opened safely in a folder for everybody."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

from tuner.model.errors import UsageError

#: Names another folder for the lock; every measuring process of the host must agree on it.
LOCK_DIR_VARIABLE = "TUNE_LOCK_DIR"

#: Not ``$TMPDIR``: users have their own, and the lock is for all of them.
SHARED_FOLDER = Path("/tmp")


def lock_path(environ: Mapping[str, str], hostname: str | None = None) -> Path:
    """The lock file of this host."""
    chosen = environ.get(LOCK_DIR_VARIABLE)
    if chosen:
        return Path(chosen) / "measuring.lock"
    host = re.sub(r"[^A-Za-z0-9.-]", "_", hostname or socket.gethostname()) or "localhost"
    return SHARED_FOLDER / f"tuner-{host}" / "measuring.lock"


def open_file(path: Path) -> int:
    """Open the lock file, made where it is missing; the descriptor is not inherited.

    Raises:
        UsageError: It cannot be used.
    """
    try:
        _make_folder(path.parent)
        # Open first: fs.protected_regular forbids O_CREAT on another user's file in /tmp.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = _create(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a plain file")
    except OSError as error:
        raise UsageError(
            f"the lock file {path} cannot be used: {error.strerror}",
            f"Remove it, or set {LOCK_DIR_VARIABLE} to a folder of your own.",
        ) from error
    return descriptor


def is_current(descriptor: int, path: Path) -> bool:
    """True while the open file is the one that others find; it may have been removed."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _create(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:  # another process was first
        return os.open(path, flags)
    os.fchmod(descriptor, 0o666)  # whatever the umask: the next user must be able to open it
    return descriptor


def _make_folder(folder: Path) -> None:
    """Make the folder for all users; refuse one that somebody has put a link in place of."""
    if folder.parent != SHARED_FOLDER:
        folder.mkdir(parents=True, exist_ok=True)
        return
    try:
        folder.mkdir()
        folder.chmod(0o1777)
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise OSError(errno.ENOTDIR, f"{folder} is not a folder") from None
