"""From what a database or a disk complains about to one error that a user can act on."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from tuner.launch.secrets import Redactor
from tuner.model.errors import BusyError, TunerError, UsageError
from tuner.store.urls import display_url, sqlite_path

#: What a full disk says: SQLite, the C library, PostgreSQL.
_FULL = ("database or disk is full", "no space left on device", "could not extend file")
_READ_ONLY = ("readonly database", "read-only transaction", "read-only file system")
_CORRUPT = (
    "malformed",
    "file is not a database",
    "invalid page",
    "disk image",
    "decode to utf-8",
    "file format",
)
#: SQLite, of a table that another program made or changed, or that is damaged.
_FOREIGN = ("no such table", "no such column", "has no column", "too big", "datatype mismatch")
_UNREACHABLE = ("connection", "could not translate host name", "authentication", "does not exist")

#: What a server that has stopped, or its driver, says in the middle of the work.
_GONE = ("connection", "terminating", "shutting down", "starting up", "server closed")


@contextmanager
def translated(url: str, *also: type[Exception], opened: bool = False) -> Iterator[None]:
    """Turn the errors of a database into a :class:`TunerError`.

    Args:
        url: The database, for the message.
        opened: It was reached before: what it says now is not the user's mistake.
        also: More classes to translate, if a library wraps the errors in its own.
    """
    kinds: tuple[type[Exception], ...] = (SQLAlchemyError, sqlite3.Error, UnicodeError, *also)
    try:
        yield
    except kinds as error:
        raise translate(error, url, opened=opened) from error


def translate(error: BaseException, url: str, *, opened: bool = False) -> TunerError:  # noqa: PLR0911
    """The error for the user; what is not known keeps the database's own first line."""
    place = display_url(url)
    text = " ".join(_words(e) for e in _chain(error)).lower()
    if any(word in text for word in _FULL):
        return disk_full(place)
    if "database is locked" in text or "lock timeout" in text:
        return BusyError(
            f"the database {place} is locked by another process",
            "End the program that holds it, then run the same command again:"
            " what was measured is kept.",
        )
    if any(word in text for word in _READ_ONLY):
        return UsageError(
            f"the database {place} is read-only",
            "Make the file and its folder writable, or choose another with --storage FILE.",
        )
    if "not a database" in text:
        return UsageError(
            f"{place} is not an SQLite database", "Choose another file with --storage FILE."
        )
    if isinstance(error, UnicodeError) or any(word in text for word in _CORRUPT):
        return UsageError(
            f"the database {place} is corrupt",
            "Restore a copy, or save what can be read: sqlite3 FILE .recover | sqlite3 NEW;"
            " a new one is made with --storage FILE.",
        )
    # a driver may repeat the URL that it was given
    line = Redactor.of({}, (url,)).text(_first_line(error))
    if any(word in text for word in _FOREIGN):
        too_long = "a row is too long: " if "too big" in text else ""
        return foreign(url, f"{too_long}{line}")
    return _other(text, line, url, opened=opened)


def foreign(url: str, what: str) -> UsageError:
    """The error for tables that ``tune`` did not make, or that are damaged."""
    return UsageError(
        f"the database {display_url(url)} is not as tune made it: {what}",
        "Restore a copy, or choose another database with --storage FILE.",
    )


def _other(text: str, line: str, url: str, *, opened: bool) -> TunerError:
    place = display_url(url)
    if "unable to open database file" in text and _lacks_inodes(url):
        return TunerError(
            f"the file system of the database {place} has no free inodes",
            "Remove files that are not needed (df -i shows how many there are), then run the same"
            " command again: what was saved before is kept.",
        )
    if "unable to open database file" in text:
        return UsageError(
            f"the database {place} cannot be opened",
            "Check that it is a file that you may read and write, in a folder that you may"
            " write to, or choose another with --storage FILE.",
        )
    if "disk i/o error" in text:
        return TunerError(
            f"the disk of the database {place} gave an input/output error",
            "See the kernel's log (dmesg); what was saved before is kept.",
        )
    if opened and any(word in text for word in _GONE):
        return TunerError(
            f"the server of the database {place} is gone: {line}",
            "Start it, then run the same command again: what was saved before is kept.",
        )
    if any(word in text for word in _UNREACHABLE):
        return UsageError(
            f"the database {place} cannot be used: {line}",
            "Check host, port, user, password and name in --storage, and that the server runs.",
        )
    return TunerError(f"the database {place} failed: {line}", "What was saved before is kept.")


def _lacks_inodes(url: str) -> bool:
    """True if SQLite cannot make its journal beside the file; some file systems count none."""
    path = sqlite_path(url)
    try:
        status = os.statvfs(path.parent) if path is not None else None
    except OSError:
        return False
    return status is not None and status.f_files > 0 and status.f_favail == 0


def disk_full(place: object) -> TunerError:
    """The error for a disk without space."""
    return TunerError(
        f"the disk is full: {place} could not be written",
        "Free some space, then run the same command again: what was saved before is kept.",
    )


def from_os_error(error: OSError, place: object, fix: str) -> TunerError:
    """The error for a file or folder that cannot be made or written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(place)
    return UsageError(f"{place} cannot be written: {error.strerror or error}", fix)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, as libraries wrap each other's."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    """What an error says; of a wrapper nothing, as it repeats the statement and its values."""
    return "" if getattr(error, "orig", None) is not None else str(error)


def _first_line(error: BaseException) -> str:
    """The innermost message that says something: the database's own words."""
    said = [words for e in _chain(error) if (words := _words(e).strip()) and words != "()"]
    *_, last = _chain(error)
    return said[-1].splitlines()[0] if said else type(last).__name__
