"""Where a study is kept: from what the user typed to a database URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tuner.hosts.typed_paths import typed_path
from tuner.launch.secrets import HIDDEN
from tuner.model.errors import UsageError

DEFAULT_STORAGE = "studies/tune.db"

#: Used if ``--storage`` is not given.
STORAGE_VARIABLE = "TUNE_STORAGE"

#: The drivers this tool is tested with, by the names that people type.
SCHEMES = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def resolve_url(storage: str | None, environ: Mapping[str, str]) -> str:
    """The database URL: the option, else ``TUNE_STORAGE``, else ``studies/tune.db``.

    A text without ``://`` is the path of an SQLite file. One with ``@`` or ``=`` may be a login
    (``USER:PASSWORD@HOST``, ``host=db password=X``), and a file of that name would tell the
    password: so such a path must begin with ``/``, ``.`` or ``~``.

    Raises:
        UsageError: Not a database this tool can use.
    """
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        if not text.startswith(("/", ".", "~")) and ("@" in text or "=" in text):
            raise _no_url(text)
        # Not resolved: what the user typed is what messages should show.
        path = typed_path(os.path.expanduser(text), "--storage")  # noqa: PTH111 (raises nothing)
        return URL.create("sqlite", database=str(path)).render_as_string()
    driver = SCHEMES.get(scheme.lower())
    if driver is None:
        raise UsageError(
            f"--storage {display_url(text)}: only SQLite and PostgreSQL databases are supported",
            "give the path of an SQLite file, sqlite:///FILE or postgresql://USER@HOST/NAME",
        )
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the original text may hold a password
        raise _no_url(text) from None
    name = parsed.database or ""
    if driver != "sqlite":
        if "@" in f"{parsed.host}{name}":  # one in the password: what follows is not a host
            raise _no_url(text)
    elif (
        name in {"", ":memory:"}
        or name.startswith("file:")
        or (parsed.query or parsed.host or parsed.username is not None or "\0" in name)
    ):
        raise UsageError(
            f"--storage {display_url(text)}: not the path of an SQLite file",
            "write sqlite:///FILE, sqlite:////ABSOLUTE/FILE, or only the path",
        )
    if driver == "sqlite":
        typed_path(name, "--storage")
    return f"{driver}://{rest}"


def _no_url(text: str) -> UsageError:
    return UsageError(
        f"--storage {display_url(text)}: not a database URL",
        "write postgresql://USER@HOST:PORT/NAME, the port a number, the password in PGPASSWORD or"
        " ~/.pgpass. One that stands before the @ has %40 %3A %2F %3F %23 for its own @ : / ? #."
        " ./NAME is a file, whatever its name",
    )


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, ``None`` for other databases."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def display_url(url: str) -> str:
    """The URL as it may be shown: an SQLite file as its path, no password, no query.

    Of what cannot be read as a URL nothing is shown: any part of it may be a password.
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
    is_misread = url.count("@") != (parsed.username is not None)  # one stands in the password
    if is_misread or "#" in url:
        return HIDDEN
    return parsed.set(query={}).render_as_string(hide_password=True)


def place(url: str) -> str:
    """The database as other processes of this host know it: no password, no relative path."""
    path = sqlite_path(url)
    return display_url(url) if path is None else str(path.resolve())


def study_names(storage: str | None, environ: Mapping[str, str]) -> list[str]:
    """The studies in an SQLite database, the latest first; [] if it cannot be read at once.

    Nothing is raised: there is no place for a message in the middle of a completion.
    """
    import sqlite3

    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    query = (
        "SELECT study_name FROM studies JOIN study_user_attributes USING (study_id)"
        " WHERE key IN ('tune:state', 'tune:summary') GROUP BY study_name"
        " ORDER BY MAX(json_extract(value_json, '$.updated_at')) DESC"
    )
    try:
        path = Path(text.removeprefix("sqlite:///")).expanduser()
        if "://" in str(path) or not path.is_file():
            return []
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            return [name for (name,) in database.execute(query)]
        finally:
            database.close()
    # too long a name, an unknown ~user, a NUL
    except (OSError, RuntimeError, ValueError, sqlite3.Error):
        return []
