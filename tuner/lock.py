"""One measuring process a host: two at once would measure each other.

The lock is ``flock`` on a file in a folder of the host's own, so it ends with its owner,
``kill -9`` included. Containers with their own ``/tmp`` do not see each other's lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import BusyError, UsageError
from tuner.wording import one_line

#: Names another folder for the lock; every measuring process of the host must agree on it.
LOCK_DIR_VARIABLE = "TUNE_LOCK_DIR"

#: Not ``$TMPDIR``: users have their own, and the lock is for all of them.
SHARED_FOLDER = Path("/tmp")

#: Process ids are 32 bit numbers.
MOST_PID = 2**31

#: More than any owner's name takes.
OWNER_BYTES = 1 << 14

#: How often a waiting process looks again.
POLL_S = 0.2

#: The locks of all processes that this one can see (proc(5)).
LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class Owner:
    """Who holds the lock; ``pid`` is 0 where that could not be read."""

    pid: int
    study: str
    database: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another tune"
        # Another user of the host can have written that: nothing in it may reach the terminal.
        study = one_line(self.study, 110)
        return f"process {self.pid} (study {study})" if study else f"process {self.pid}"


def lock_path(environ: Mapping[str, str], hostname: str | None = None) -> Path:
    """The lock file of this host."""
    chosen = environ.get(LOCK_DIR_VARIABLE)
    if chosen:
        return Path(chosen) / "measuring.lock"
    host = re.sub(r"[^A-Za-z0-9.-]", "_", hostname or socket.gethostname()) or "localhost"
    return SHARED_FOLDER / f"tuner-{host}" / "measuring.lock"


@contextmanager
def measuring(
    study: str,
    *,
    environ: Mapping[str, str],
    database: str = "",
    wait: bool = False,
    on_wait: Callable[[Owner], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the host for one measuring process.

    Args:
        study: Told to those who find the host busy.
        environ: ``TUNE_LOCK_DIR`` names another folder.
        database: Where the study is kept; for :func:`may_measure`.
        wait: Wait for the present owner instead of giving up.
        on_wait: Called once, before the waiting.
        cancelled: Asked while waiting; where it turns true, the wait ends.

    Raises:
        BusyError: Another process measures here.
        UsageError: The lock file cannot be used.
        KeyboardInterrupt: Cancelled.
    """
    path = lock_path(environ)
    descriptor = _open(path)
    try:
        waiting = False
        while not _acquired(descriptor):
            owner = _owner(descriptor)
            if cancelled():
                raise KeyboardInterrupt
            if not wait:
                raise BusyError(
                    f"this machine is measuring for {owner} already",
                    "Two at once would spoil both: wait for it, or add --wait to queue up.",
                )
            if not waiting and on_wait is not None:
                on_wait(owner)
            waiting = True
            time.sleep(POLL_S)
        _sign(descriptor, study, database)
        yield
    finally:
        # The lock belongs to the open file: closing it is enough, also for a crash.
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        _make_folder(path.parent)
        # Open first: fs.protected_regular forbids O_CREAT on another user's file in /tmp.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
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


def _acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int, study: str, database: str) -> None:
    os.ftruncate(descriptor, 0)
    owner = {"pid": os.getpid(), "study": study, "database": database}
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _owner(descriptor: int) -> Owner:
    """Read who holds the lock; a half-written or foreign text gives an unnamed owner."""
    return parse_owner(os.pread(descriptor, OWNER_BYTES, 0))


def parse_owner(note: bytes) -> Owner:
    """The owner that a note names."""
    try:
        data = json.loads(note)
        pid, study, database = data["pid"], data["study"], data["database"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return Owner(0, "")
    if type(pid) is not int or not 0 < pid < MOST_PID:
        return Owner(0, "")
    return Owner(pid, str(study), str(database))


def may_measure(study: str, *, database: str, environ: Mapping[str, str]) -> bool:
    """False where no process of this host measures for the study; the lock is left alone.

    True also where that cannot be seen: no ``/proc/locks``, a lock file of another kind.
    """
    try:
        descriptor = os.open(lock_path(environ), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:  # nobody has ever measured here
        return False
    except OSError:
        return True
    try:
        if not _is_locked(os.fstat(descriptor).st_ino):
            return False
        owner = _owner(descriptor)
    finally:
        os.close(descriptor)
    return owner.pid == 0 or (owner.study, owner.database) == (study, database)


def _is_locked(inode: int) -> bool:
    """True where a process holds an flock on the file; those that wait for it have none.

    The device is not compared: overlay file systems and btrfs show another one there.
    """
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return True
    rows = (line.split() for line in lines)
    # "1: FLOCK ADVISORY WRITE 22862 fe:00:2621569 0 EOF"; "1: -> FLOCK …" waits
    return any(
        len(row) > 5 and row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode)
        for row in rows
    )
