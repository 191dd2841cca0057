"""Turns what the user typed for a database into its URL, and a URL into what may be shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.hosts.typed_paths import typed_path
from tuner.launch.secrets import HIDDEN
from tuner.model.errors import TunerError, UsageError, missing_extra
from tuner.model.wording import one_line

DEFAULT_STORAGE = "studies/tune.db"

#: Used if ``--storage`` is not given.
STORAGE_VARIABLE = "TUNE_STORAGE"

#: PostgreSQL by the names that people type, and the driver that this tool is tested with.
_POSTGRESQL, _DRIVER = {"postgresql", "postgres", "postgresql+psycopg"}, "postgresql+psycopg"

_SQLITE = "sqlite:///"


def resolve_url(storage: str | None, environ: Mapping[str, str]) -> str:
    """Return the database URL: the option, else ``TUNE_STORAGE``, else ``studies/tune.db``.

    A text without ``://`` is the path of an SQLite file. One with ``@`` or ``=`` may be a login
    (``USER:PASSWORD@HOST``, ``host=db password=X``), and a file of that name would show the
    password: so such a path must begin with ``/``, ``.`` or ``~``. Any other database is a
    `UsageError`.
    """
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    typed = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    text = typed.removeprefix(_SQLITE)
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        is_path = text.startswith(("/", ".", "~")) or not ("@" in text or "=" in text)
        if not is_path or text in {"", ":memory:"} or ("?" in text and text != typed):
            raise _no_url(typed)
        # The path is not resolved: messages should show what the user typed.
        path = typed_path(os.path.expanduser(text), "--storage")  # noqa: PTH111 (raises nothing)
        return URL.create("sqlite", database=str(path)).render_as_string()
    if scheme.lower() not in _POSTGRESQL:
        raise UsageError(
            f"--storage {display_url(typed)}: only SQLite and PostgreSQL databases are supported",
            "give the path of an SQLite file, or postgresql://USER@HOST/NAME",
        )
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the original text may hold a password
        raise _no_url(text) from None
    if "@" in f"{parsed.host}{parsed.database}":  # an @ stands in the password: this is no host
        raise _no_url(text)
    return f"{_DRIVER}://{rest}"


def _no_url(text: str) -> UsageError:
    return UsageError(
        f"--storage {display_url(text)}: not a database URL",
        "write postgresql://USER@HOST:PORT/NAME, the port a number, the password in PGPASSWORD or"
        " ~/.pgpass. One that stands before the @ has %40 %3A %2F %3F %23 for its own @ : / ? #."
        " ./NAME is a file, whatever its name",
    )


def sqlite_path(url: str) -> Path | None:
    """Return the file of an SQLite URL, ``None`` for other databases."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def display_url(url: str) -> str:
    """Return the URL as it may be shown: an SQLite file as its path, no password, no query.

    Nothing is shown of a text that is no URL: any part of it may be a password.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return HIDDEN
    if parsed.drivername.startswith("sqlite"):
        is_path = parsed.database and not parsed.host and parsed.username is None
        return str(parsed.database) if is_path else HIDDEN
    is_misread = url.count("@") != (parsed.username is not None)  # an @ stands in the password
    if is_misread or "#" in url:
        return HIDDEN
    return parsed.set(query={}).render_as_string(hide_password=True)


def place(url: str) -> str:
    """Return the database as other processes of this host know it, without a password."""
    path = sqlite_path(url)
    return display_url(url) if path is None else str(path.resolve())


def study_names(storage: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the studies in an SQLite database, the latest first; [] if it cannot be read at once.

    Nothing is raised: there is no place for a message in the middle of a completion.
    """
    query = (
        "SELECT study_name FROM studies JOIN study_user_attributes USING (study_id)"
        " WHERE key IN ('tune:state', 'tune:summary') GROUP BY study_name"
        " ORDER BY MAX(json_extract(value_json, '$.updated_at')) DESC"
    )
    if "://" in _database_text(storage, environ):
        return []
    try:
        return [name for (name,) in read_rows(query, storage, environ, wait_s=0.2)]
    except TunerError:
        return []


def read_rows(
    query: str, storage: str | None, environ: Mapping[str, str], *, wait_s: float
) -> list[tuple[Any, ...]]:
    """Return the rows of a query by the database's driver alone, which loads quickly.

    Nothing is written: the database may be read-only. Without a database, or one of our tables in
    it, there are no rows. A database that cannot be read in this time is a ``TunerError``.
    """
    text = _database_text(storage, environ)
    try:
        return (_rows_of_server if "://" in text else _rows_of_file)(query, text, wait_s)
    except TunerError:
        raise
    except Exception as error:  # of either driver, or of a path that is none
        if "no such table" in str(error) or type(error).__name__ == "UndefinedTable":
            return []
        name = "" if "://" in text else f" {text}"
        raise TunerError(f"the database{name} cannot be read: {one_line(str(error))}") from error


def _rows_of_file(query: str, text: str, wait_s: float) -> list[tuple[Any, ...]]:
    import sqlite3
    from contextlib import closing

    path = Path(text).expanduser().resolve()
    if not path.exists():
        return []
    # Without leave to write there SQLite can neither lock the file nor read its journal.
    is_read_only = not all(os.access(place, os.W_OK) for place in (path, path.parent))
    url = f"{path.as_uri()}?mode=ro{'&immutable=1' if is_read_only else ''}"
    with closing(sqlite3.connect(url, uri=True, timeout=wait_s)) as database:
        return database.execute(query).fetchall()


def _rows_of_server(query: str, url: str, wait_s: float) -> list[tuple[Any, ...]]:
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in _POSTGRESQL:
        raise UsageError("only SQLite and PostgreSQL databases are supported")
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise missing_extra("the database cannot be read", "postgres", error) from error
    with psycopg.connect(
        f"postgresql://{rest}",
        connect_timeout=round(wait_s),
        options=f"-c statement_timeout={round(1000 * wait_s)}",
    ) as connection:
        return connection.execute(query.encode()).fetchall()


def _database_text(storage: str | None, environ: Mapping[str, str]) -> str:
    """Return the database as it was typed, or by default; an SQLite file as its path."""
    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    return text.removeprefix(_SQLITE)
