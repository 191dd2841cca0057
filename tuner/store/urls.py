"""Where a study is kept: from what the user typed to a database URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UsageError

DEFAULT_STORAGE = "studies/tune.db"

#: Used where ``--storage`` is not given.
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

    A text without ``://`` is the path of an SQLite file.

    Raises:
        UsageError: Not a database this tool can use.
    """
    text = storage or environ.get(STORAGE_VARIABLE) or DEFAULT_STORAGE
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
    """The URL as it may be shown: without a password, an SQLite file as its path."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Whatever stands before the host, or behind the name, may be a password.
        return url.rpartition("@")[2].partition("?")[0]
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        return parsed.database
    hidden = {key: "***" for key in parsed.query if "password" in key.lower()}
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
        make_url(text)
    except (ArgumentError, ValueError):  # not chained: the original text may hold a password
        raise UsageError(
            f"--storage {display_url(text)}: not a database URL",
            "Write postgresql://USER:PASSWORD@HOST:PORT/NAME, the port a number; @ : / ? and #"
            " in a password as %40 %3A %2F %3F %23.",
        ) from None


def _require_file(text: str) -> None:
    from sqlalchemy.engine import make_url

    parsed = make_url(text)
    name = parsed.database or ""
    if name in {"", ":memory:"} or name.startswith("file:") or parsed.query or parsed.host:
        raise UsageError(
            f"--storage {text}: not the path of an SQLite file",
            "Write sqlite:///FILE, sqlite:////ABSOLUTE/FILE, or only the path.",
        )
