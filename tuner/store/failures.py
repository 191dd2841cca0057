"""From what a database or a disk complains about to one error that a user can act on."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from tuner.launch.secrets import Redactor
from tuner.model.errors import BusyError, TunerError, UsageError
from tuner.store.urls import display_url, sqlite_path

#: The class of an error, its message ({place}: the database, {line}: its own words) and the hint.
_Told = tuple[type[TunerError], str, str]

_FULL: _Told = (
    TunerError,
    "the disk is full: {place} could not be written",
    "free some space, then run the same command again: what was saved before is kept",
)
_FOREIGN: _Told = (
    UsageError,
    "the database {place} is not as tune made it: {line}",
    "restore a copy, or choose another database with --storage FILE",
)
_CORRUPT: _Told = (
    UsageError,
    "the database {place} is corrupt",
    "restore a copy, or save what can be read: sqlite3 FILE .recover | sqlite3 NEW;"
    " a new one is made with --storage FILE",
)
_NO_INODES: _Told = (
    TunerError,
    "the file system of the database {place} has no free inodes",
    "remove files that are not needed (df -i shows how many there are), then run the same"
    " command again: what was saved before is kept",
)
_GONE: _Told = (
    TunerError,
    "the server of the database {place} is gone: {line}",
    "start it, then run the same command again: what was saved before is kept",
)
_MOVED: _Told = (
    TunerError,
    "the database {place} was moved or replaced by another file while the study ran",
    "put it back, then run the same command again",
)
_OTHER: _Told = (
    TunerError,
    "the database {place} failed: {line}",
    "what was saved before is kept",
)

_UNREACHABLE = "connection|could not translate host name|authentication|does not exist"
#: What a server that has stopped, or its driver, says in the middle of the work.
_STOPPED = "connection|terminating|shutting down|starting up|server closed"

#: SQLite calls this "readonly" as well (sqlite.org/rescode.html).
_DB_MOVED = "SQLITE_READONLY_DBMOVED"

#: What SQLite, the C library and PostgreSQL say, and what the user is told; the first counts.
_COMPLAINTS: Mapping[str, _Told] = {
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
    "no such table|no such column|has no column|too big|datatype mismatch": _FOREIGN,
    "unable to open database file": (
        UsageError,
        "the database {place} cannot be opened",
        "check that it is a file that you may read and write, in a folder that you may"
        " write to, or choose another with --storage FILE",
    ),
    _UNREACHABLE: (
        UsageError,
        "the database {place} cannot be used: {line}",
        "check host, port, user, password and name in --storage, and that the server runs",
    ),
}


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


def translate(error: BaseException, url: str, *, opened: bool = False) -> TunerError:
    """The error for the user; what is not known keeps the database's own first line."""
    said = [words for each in _chain(error) if (words := _words(each))]
    text = " ".join(said).lower()
    pattern = next((each for each in _COMPLAINTS if re.search(each, text)), "")
    told = _COMPLAINTS.get(pattern, _OTHER)
    if isinstance(error, UnicodeError):
        told = _CORRUPT
    elif pattern == "unable to open database file" and _lacks_inodes(url):
        told = _NO_INODES
    elif opened and pattern in {_UNREACHABLE, ""} and re.search(_STOPPED, text):
        told = _GONE
    if any(getattr(each, "sqlite_errorname", "") == _DB_MOVED for each in _chain(error)):
        told = _MOVED
    # The innermost has the database's own words. A driver may repeat the URL that it was given.
    line = said[-1].splitlines()[0] if said else type([*_chain(error)][-1]).__name__
    line = Redactor.of({}, (url,)).text(line)
    too_long = "a row is too long: " if "too big" in text else ""
    return _error(told, display_url(url), f"{too_long}{line}")


def _error(told: _Told, place: object, line: str = "") -> TunerError:
    kind, message, hint = told
    return kind(message.format(place=place, line=line), hint)


def foreign(url: str, what: str) -> TunerError:
    """The error for tables that ``tune`` did not make, or that are damaged."""
    return _error(_FOREIGN, display_url(url), what)


def disk_full(place: object) -> TunerError:
    """The error for a disk without space."""
    return _error(_FULL, place)


def from_os_error(error: OSError, place: object, fix: str) -> TunerError:
    """The error for a file or folder that cannot be made or written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return disk_full(place)
    return UsageError(f"{place} cannot be written: {error.strerror or error}", fix)


def _lacks_inodes(url: str) -> bool:
    """True if SQLite cannot make its journal beside the file; some file systems count none."""
    path = sqlite_path(url)
    try:
        status = os.statvfs(path.parent) if path is not None else None
    except OSError:
        return False
    return status is not None and status.f_files > 0 and status.f_favail == 0


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, as libraries wrap each other's."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    """What an error says; of a wrapper nothing, as it repeats the statement and its values."""
    said = "" if getattr(error, "orig", None) is not None else str(error).strip()
    return "" if said == "()" else said
