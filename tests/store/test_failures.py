"""Each complaint of a database, in its own words, and what the user is told."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa
from optuna.exceptions import StorageInternalError

from tuner.model.errors import BusyError, TunerError, UsageError
from tuner.store.failures import translated

URL = "sqlite:///studies/tune.db"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("database is locked", BusyError, "locked by another process"),
        ("attempt to write a readonly database", UsageError, "read-only"),
        ("unable to open database file", UsageError, "cannot be opened"),
        ("file is not a database", UsageError, "not an SQLite database"),
        ("database disk image is malformed", UsageError, "corrupt"),
        ("database or disk is full", TunerError, "disk is full"),
        ("could not extend file: No space left on device", TunerError, "disk is full"),
        ("connection refused", UsageError, "cannot be used: connection refused"),
        ("canceling statement due to lock timeout", BusyError, "locked"),
        ("something new", TunerError, "something new"),
    ],
)
def test_words(text: str, kind: type[TunerError], said: str) -> None:
    inner = sqlite3.OperationalError(text)
    of_optuna = StorageInternalError("An exception is raised during the commit.")
    of_optuna.__cause__ = inner
    for error in (inner, sa.exc.OperationalError("INSERT …", {}, inner), of_optuna):
        with pytest.raises(kind) as caught, translated(URL):
            raise error
        assert type(caught.value) is kind
        assert said in caught.value.message
        assert "studies/tune.db" in caught.value.message
        assert caught.value.hint
        assert "INSERT …" not in caught.value.message
