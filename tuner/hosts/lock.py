"""One measuring process a host: two at once would measure each other.

The lock is ``flock`` on a file in a folder of the host's own, so it ends with its owner,
``kill -9`` included; a note in the file names the owner. Containers with their own ``/tmp`` do
not see each other's lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import re
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tuner.hosts import procfs
from tuner.hosts.supervisor.cleanup import send
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model import codec
from tuner.model.errors import BusyError, UsageError
from tuner.model.wording import one_line

T = TypeVar("T")

#: Names another folder for the lock; every measuring process of the host must agree on it.
LOCK_DIR_VARIABLE = "TUNE_LOCK_DIR"

#: Not ``$TMPDIR``: users have their own, and the lock is for all of them.
SHARED_FOLDER = Path("/tmp")

#: How often a waiting process looks again, s.
POLL_S = 0.2

#: Within this time after SIGKILL a process has ended, s.
KILLED_S = 2.0

#: No note of an owner is longer.
_NOTE_BYTES = 1 << 14


@dataclass(frozen=True)
class Owner:
    """Who holds the lock."""

    pid: int  # 0: the note could not be read
    study: str
    database: str = ""
    started: int = 0  # clock ticks since boot: tells the process from a later one with its id
    is_agent: bool = False  # it holds the host for a ``tune`` on another host

    def __str__(self) -> str:
        if not self.pid:
            return "another tune"
        # Another user of the host can have written the note: no control codes reach the terminal.
        study = one_line(self.study, most=110)
        return f"process {self.pid} (study {study})" if study else f"process {self.pid}"

    def process(self) -> procfs.Stat | None:
        """Return the owner's process, if it is still there."""
        process = procfs.stat(self.pid)
        return process if process is not None and process.started == self.started else None


def retry_if_busy(
    take: Callable[[], T],
    *,
    most_s: float,
    on_wait: Callable[[str], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> T:
    """Call ``take``, which locks a host, until it raises no ``BusyError``; return its result.

    ``on_wait`` is called once, before the first wait, with the words of that error.

    Raises:
        BusyError: Another process measured there for all of ``most_s``.
        KeyboardInterrupt: ``cancelled`` returned true.
    """
    deadline_s, has_waited = time.monotonic() + most_s, False
    while True:
        try:
            return take()
        except BusyError as error:
            if cancelled():
                raise KeyboardInterrupt from error
            if time.monotonic() >= deadline_s:
                raise
            if not has_waited:
                on_wait(error.message)
        has_waited = True
        time.sleep(POLL_S)


@contextmanager
def measuring(
    study: str,
    *,
    environ: Mapping[str, str],
    database: str = "",
    wait: bool = False,
    is_agent: bool = False,
    on_wait: Callable[[str], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Path]:
    """Lock the host for one measuring process; yield the beginning of the paths of launch notes.

    What a killed owner has left running is ended first. Other processes that find the host locked
    learn of ``study``. With ``wait`` this one queues up, as in :func:`retry_if_busy`. An agent
    of the same study in the same database that somebody has stopped (SIGSTOP) is killed.

    Raises:
        BusyError: Another process measures here.
        UsageError: The lock file cannot be used.
        TunerError: What a killed owner has left cannot be ended.
        KeyboardInterrupt: Cancelled.
    """
    from tuner.hosts.process import left_over  # costs start-up time

    path, most_s = lock_path(environ), math.inf if wait else 0.0
    if is_agent and _kill_stopped_agent(study, database, environ):
        most_s = KILLED_S
    take = partial(_acquire, path)
    descriptor = retry_if_busy(take, most_s=most_s, on_wait=on_wait, cancelled=cancelled)
    try:
        process = procfs.stat(os.getpid())
        owner = Owner(os.getpid(), study, database, process.started if process else 0, is_agent)
        with contextlib.suppress(OSError):  # the disk is full: an owner without a name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, codec.dumps(owner).encode(), 0)
        notes = left_over.note_path(path.parent)
        for note in path.parent.glob(f"{notes.name}-*"):
            left_over.end(note)
        yield notes
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    """Take the lock, and return its open file: closing it gives the lock back."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = parse_owner(os.pread(descriptor, _NOTE_BYTES, 0))
            os.close(descriptor)
            message = f"{socket.gethostname()} is measuring for {owner} already"
            hint = "wait for it, or add --wait to queue up: two at once would spoil both"
            if (process := owner.process()) is not None and process.state in "Tt":
                message += ", which is stopped"
                hint = f"kill -CONT {owner.pid} lets it go on, kill -9 {owner.pid} ends it"
            raise BusyError(message, hint) from error
        with contextlib.suppress(OSError):
            if os.path.samestat(path.lstat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)  # the file was removed meanwhile: a lock that others do not see


def parse_owner(note: bytes) -> Owner:
    """Return the owner that a note names; a half-written or foreign text gives an unnamed one."""
    try:
        owner = codec.loads(Owner, note.decode())
    except (ValueError, KeyError, TypeError):
        return Owner(pid=0, study="")
    return owner if 0 <= owner.pid < 2**31 else Owner(pid=0, study="")


def _kill_stopped_agent(study: str, database: str, environ: Mapping[str, str]) -> bool:
    """End a stopped agent that holds the host for this study: its ``tune`` has given it up."""
    with contextlib.suppress(OSError):
        owner = holder(environ)
        if owner and owner.is_agent and (owner.study, owner.database) == (study, database):
            process = owner.process()
            return process is not None and process.state in "Tt" and send(process, signal.SIGKILL)
    return False


def holder(environ: Mapping[str, str]) -> Owner | None:
    """Return who measures on this host, ``None`` if nobody does; the lock is left alone.

    An ``OSError`` says that it cannot be seen: a lock file of another kind, or not ours to read.
    """
    try:
        owner = parse_owner(read_untrusted(lock_path(environ), _NOTE_BYTES))
    except FileNotFoundError:  # nobody has ever measured here
        return None
    return owner if owner.process() is not None else None


def may_measure(study: str, *, database: str, environ: Mapping[str, str]) -> bool:
    """Return whether a process of this host may be measuring for the study."""
    try:
        owner = holder(environ)
    except OSError:
        return True
    return owner is not None and (owner.study, owner.database) == (study, database)


def lock_path(environ: Mapping[str, str]) -> Path:
    """Return the lock file of this host."""
    folder = environ.get(LOCK_DIR_VARIABLE)
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname()) or "localhost"
    return (Path(folder) if folder else SHARED_FOLDER / f"tuner-{host}") / "measuring.lock"


def _open(path: Path) -> int:
    """Open the lock file, made if it is missing; ``UsageError`` if it cannot be used."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    folder = path.parent
    try:
        if folder.parent != SHARED_FOLDER:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(0o1777)  # for all users
            if not stat.S_ISDIR(folder.lstat().st_mode):  # somebody has put a link in its place
                raise OSError(errno.ENOTDIR, f"{folder} is not a folder")
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
            os.fchmod(descriptor, 0o666)  # whatever the umask: it is for all users
            return descriptor
        # Without O_CREAT: fs.protected_regular forbids it on another user's file in /tmp.
        descriptor = os.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a plain file")
    except OSError as error:
        raise UsageError(
            f"the lock file {path} cannot be used: {error.strerror}",
            f"remove it, or set {LOCK_DIR_VARIABLE} to a folder of your own",
        ) from error
    return descriptor
