"""Who holds the lock, and whether somebody does."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.lock.place import lock_path
from tuner.model.wording import one_line

#: More than any owner's name takes.
OWNER_BYTES = 1 << 14

#: Process ids are 32 bit numbers.
MOST_PID = 2**31

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


def sign(descriptor: int, study: str, database: str) -> None:
    """Write down who holds the lock now."""
    owner = {"pid": os.getpid(), "study": study, "database": database}
    with contextlib.suppress(OSError):  # the disk is full: an owner without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def owner_of(descriptor: int) -> Owner:
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
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(lock_path(environ), flags)
    except FileNotFoundError:  # nobody has ever measured here
        return False
    except OSError:
        return True
    try:
        if not _is_locked(os.fstat(descriptor).st_ino):
            return False
        owner = owner_of(descriptor)
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
