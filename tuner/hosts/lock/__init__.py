"""One measuring process a host: two at once would measure each other.

The lock is ``flock`` on a file in a folder of the host's own, and a name in the kernel for as
long, so it ends with its owner, ``kill -9`` included. Containers with their own ``/tmp`` do not
see each other's lock.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tuner.hosts.lock.beacon import keeper, light
from tuner.hosts.lock.owner import Owner, may_measure, owner_of, parse_owner, sign
from tuner.hosts.lock.place import LOCK_DIR_VARIABLE, is_current, lock_path, open_file
from tuner.model.errors import BusyError

__all__ = [
    "LOCK_DIR_VARIABLE",
    "Owner",
    "lock_path",
    "may_measure",
    "measuring",
    "parse_owner",
]

#: How often a waiting process looks again.
POLL_S = 0.2


@contextmanager
def measuring(
    study: str,
    *,
    environ: Mapping[str, str],
    database: str = "",
    wait: bool = False,
    on_wait: Callable[[Owner], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Path]:
    """Hold the host for one measuring process; gives the file to note each launch in.

    What a killed owner has left running is ended first.

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
        TunerError: What a killed owner has left cannot be ended.
        KeyboardInterrupt: Cancelled.
    """
    from tuner.hosts.process import left_over

    path = lock_path(environ)
    held = _Held(path)
    try:
        waiting = False
        while (owner := held.take()) is not None:
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
        sign(held.descriptor, study, database)
        note = left_over.note_path(path.parent)
        left_over.end(note)
        yield note
    finally:
        held.release()


class _Held:
    """The lock as far as this process has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1
        self.beacon: socket.socket | None = None

    def take(self) -> Owner | None:
        """Take the lock, or say who has it."""
        while True:
            if self.descriptor < 0:
                self.descriptor = open_file(self.path)
            if not _locked(self.descriptor):
                owner = owner_of(self.descriptor)
                if is_current(self.descriptor, self.path):
                    return owner
            elif is_current(self.descriptor, self.path):
                break
            self.release()  # the file was removed meanwhile: a lock that others do not see
        self.beacon, free = light(self.path)
        if free:
            return None
        self.release()  # the owner's file was removed
        return Owner(keeper(self.path), "")

    def release(self) -> None:
        """Give it back: it belongs to the open file and socket, so a crash does the same."""
        if self.beacon is not None:
            self.beacon.close()
            self.beacon = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
