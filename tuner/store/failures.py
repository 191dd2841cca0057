"""Turns the errors of a database or a disk into one error that a user can act on."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from tuner.launch.secrets import Redactor
from tuner.model.errors import BusyError, TunerError, UsageError
from tuner.store.urls import display_url

#: An error, its message with ``{place}`` for the database and ``{line}`` for the first line of the
#: database's own error, and what to do.
_Complaint = tuple[type[TunerError], str, str]

_FULL: _Complaint = (
    TunerError,
    "the disk is full: {place} could not be written",
    "free some space, then run the same command again: what was saved before is kept",
)
_CORRUPT: _Complaint = (
    UsageError,
    "the database {place} is corrupt",
    "restore a copy, or save what can be read: sqlite3 FILE .recover | sqlite3 NEW;"
    " a new one is made with --storage FILE",
)
_FOREIGN: _Complaint = (
    UsageError,
    "the database {place} is not as tune made it: {line}",
    "restore a copy, or choose another database with --storage FILE",
)
_UNREACHABLE: _Complaint = (
    UsageError,
    "the database {place} cannot be used: {line}",
    "check host, port, user, password and name in --storage, and that the server runs",
)
_GONE: _Complaint = (
    TunerError,
    "the server of the database {place} is gone: {line}",
    "start it, then run the same command again: what was saved before is kept",
)
_OTHER: _Complaint = (
    TunerError,
    "the database {place} failed: {line}",
    "what was saved before is kept",
)

#: Patterns of the errors of SQLite, the C library, PostgreSQL and its driver; the first fit counts.
_COMPLAINTS: dict[str, _Complaint] = {
    "database or disk is full|no space left on device|could not extend file": _FULL,
    "database is locked|lock timeout": (
        BusyError,
        "the database {place} is locked by another process",
        "end the program that holds it, then run the same command again: what was measured is kept",
    ),
    "readonly database|read-only transaction|read-only file system": (
        UsageError,
        "the database {place} is read-only",
        "make the file and its folder writable, or choose another with --storage FILE",
    ),
    "not a database": (
        UsageError,
        "{place} is not an SQLite database",
        "choose another file with --storage FILE",
    ),
    "malformed|invalid page|disk image|decode to utf-8|file format": _CORRUPT,
    "no such (table|column)|has no column|datatype mismatch|(relation|column) .* does not"
    " exist": _FOREIGN,
    "unable to open database file": (
        UsageError,
        "the database {place} cannot be opened",
        "check that it is a file that you may read and write, in a folder that you may write to,"
        " and that the file system has free inodes (df -i); or choose another with --storage FILE",
    ),
    "connection|could not translate host name|authentication|does not exist|terminating"
    "|shutting down|starting up|server closed": _UNREACHABLE,
}


@contextmanager
def translated(url: str, *, opened: bool = False) -> Iterator[None]:
    """Turn the errors of a database, and of Optuna's storage in it, into a :class:`TunerError`.

    If the database was ``opened`` before, a server that does not answer is no mistake of the user.
    """
    try:
        yield
    except Exception as error:
        # Optuna is not imported for this: that takes half a second.
        is_optunas = type(error).__module__ == "optuna.exceptions"
        if not is_optunas and not isinstance(error, (SQLAlchemyError, sqlite3.Error, UnicodeError)):
            raise
        raise translate(error, url, opened=opened) from error


def translate(error: BaseException, url: str, *, opened: bool = False) -> TunerError:
    """Return the error for the user; an unknown one keeps the first line of the database's own."""
    texts, cause = [], error
    for _ in range(10):  # libraries wrap each other's errors
        inner = getattr(cause, "orig", None) or cause.__cause__ or cause.__context__
        # A wrapper repeats the statement and its values.
        if getattr(cause, "orig", None) is None and str(cause).strip() not in {"", "()"}:
            texts.append(str(cause).strip())
        if inner is None:
            break
        cause = inner
    text = " ".join(texts).lower()
    complaint = next((c for pattern, c in _COMPLAINTS.items() if re.search(pattern, text)), _OTHER)
    if isinstance(error, UnicodeError):
        complaint = _CORRUPT
    elif complaint is _UNREACHABLE and opened:
        complaint = _GONE
    # The innermost error is the database's own. A driver may repeat the URL, with a password.
    line = texts[-1].splitlines()[0] if texts else type(cause).__name__
    return _error(complaint, display_url(url), Redactor.of({}, (url,)).text(line))


def _error(complaint: _Complaint, place: object, line: str = "") -> TunerError:
    error_type, message, hint = complaint
    return error_type(message.format(place=place, line=line), hint)


def foreign(url: str, what: str) -> TunerError:
    """Return the error for tables that ``tune`` did not make, or that are damaged."""
    return _error(_FOREIGN, display_url(url), what)


def from_os_error(error: OSError, place: object, fix: str) -> TunerError:
    """Return the error for a file or folder that cannot be made or written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _error(_FULL, place)
    return UsageError(f"{place} cannot be written: {error.strerror or error}", fix)
