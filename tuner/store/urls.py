"""Where a study is kept: from what the user typed to a database URL."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

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

#: What connects to a database elsewhere, but is no URL: ``host=db password=X``, which libpq takes,
#: ``USER:PASSWORD@HOST``, a URL with a colon or a slash too few. ``./NAME`` is always a path.
_LOGIN = re.compile(
    r"(?![/~]|\.{1,2}/|[a-z][\w+.-]*://)(?:.*passw(?:or)?d\s*=|(?:\w[\w+.-]*//)?[^/]*:.*@)",
    re.S | re.I,
)

#: What may be shown of a query; all else (password, sslpassword, options …) may hold a secret.
_OPEN = frozenset(
    {"host", "port", "dbname", "user", "sslmode", "connect_timeout", "application_name"}
    | {"target_session_attrs", "sslrootcert", "service"}
)


def resolve_url(storage: str | None, environ: Mapping[str, str]) -> str:
    """The database URL: the option, else ``TUNE_STORAGE``, else ``studies/tune.db``.

    A text without ``://`` is the path of an SQLite file, unless it looks like a login: a file
    of such a name would tell the password.

    Raises:
        UsageError: Not a database this tool can use.
    """
    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    if _LOGIN.match(text):
        raise _no_url(text)
    if "://" not in text:
        return _sqlite_url(Path(text).expanduser())
    scheme, _, rest = text.partition("://")
    driver = SCHEMES.get(scheme.lower())
    if driver is None:
        raise UsageError(
            f"--storage {display_url(text)}: {scheme} databases are not supported",
            "Give the path of an SQLite file, sqlite:///FILE or postgresql://USER@HOST/NAME.",
        )
    _require_readable(text)
    if driver == "sqlite":
        _require_file(text)
    return f"{driver}://{rest}"


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, ``None`` for other databases."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database)


def display_url(url: str) -> str:
    """The URL as it may be shown: without a password, an SQLite file as its path.

    Of what cannot be read as a URL nothing is shown.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return HIDDEN  # any part of it may be a password
    plain = parsed.drivername.startswith("sqlite") and not parsed.host and parsed.username is None
    if plain and parsed.database:
        return parsed.database
    misread = url.count("@") != (parsed.username is not None)  # one stands in the password
    if misread or "#" in url or plain:
        return HIDDEN
    hidden = {key: HIDDEN for key in parsed.query if key.lower() not in _OPEN}
    return parsed.update_query_dict(hidden).render_as_string(hide_password=True)


def _sqlite_url(path: Path) -> str:
    from sqlalchemy.engine import URL

    # os.fspath, not resolve(): what the user typed is what messages should show.
    return URL.create("sqlite", database=os.fspath(path)).render_as_string()


def place(url: str) -> str:
    """The database as other processes of this host know it: no password, no relative path."""
    path = sqlite_path(url)
    return display_url(url) if path is None else str(path.resolve())


def _require_readable(text: str) -> None:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the original text may hold a password
        raise _no_url(text) from None
    if "@" in f"{parsed.host}{parsed.database}" and not parsed.drivername.startswith("sqlite"):
        raise _no_url(text)  # an @ in the password: what follows it would be taken for the host


def _no_url(text: str) -> UsageError:
    return UsageError(
        f"--storage {display_url(text)}: not a database URL",
        "Write postgresql://USER@HOST:PORT/NAME, the port a number, the password in PGPASSWORD or"
        " ~/.pgpass. One that stands before the @ has %40 %3A %2F %3F %23 for its own @ : / ? #."
        " ./NAME is a file, whatever its name.",
    )


def _require_file(text: str) -> None:
    from sqlalchemy.engine import make_url

    parsed = make_url(text)
    name = parsed.database or ""
    other = parsed.query or parsed.host or parsed.username is not None or "\0" in name
    if name in {"", ":memory:"} or name.startswith("file:") or other:
        raise UsageError(
            f"--storage {display_url(text)}: not the path of an SQLite file",
            "Write sqlite:///FILE, sqlite:////ABSOLUTE/FILE, or only the path.",
        )


def study_names(storage: str | None, environ: Mapping[str, str]) -> list[str]:
    """The studies in an SQLite database, the latest first; [] if it cannot be read at once.

    Nothing is raised: there is no place for a message in the middle of a completion.
    """
    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
    try:
        path = Path(text.removeprefix("sqlite:///")).expanduser()
        if "://" in str(path) or not path.is_file():
            return []
    except (OSError, RuntimeError, ValueError):  # too long, an unknown ~user, a NUL
        return []
    import sqlite3

    query = "SELECT name FROM tune_studies ORDER BY updated_at DESC, id DESC"
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            return [name for (name,) in database.execute(query)]
        finally:
            database.close()
    except sqlite3.Error:
        return []
