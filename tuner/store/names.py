"""The names of the stored studies, fast enough for completion: SQLite read without SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.store.urls import DEFAULT_STORAGE, STORAGE_VARIABLE


def names(storage: str | None, environ: Mapping[str, str]) -> list[str]:
    """The studies in an SQLite database, the latest first; [] where it cannot be read at once.

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
