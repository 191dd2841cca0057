"""Beside Optuna's tables there is one of ours, and nothing that decides stands in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Tune, store_study
from tests.study_samples import study


@pytest.mark.parametrize(
    "words",
    [
        ("show", "--json"),
        ("export", "mnist", "--format", "sh"),
        ("compare", "mnist", "other"),
        ("explain", "mnist"),
    ],
)
def test_each_view_works_without_it(tune: Tune, database: Path, words: tuple[str, ...]) -> None:
    other = store_study(database.with_name("other.db"), study())
    words = tuple(str(other) if word == "other" else word for word in words)
    if words[0] == "compare":
        json_file = database.with_name("other.json")
        done = tune("export", "--format", "json", "--storage", str(other), "-o", str(json_file))
        assert done.code == 0, done.err
        words = ("compare", "mnist", str(json_file))
    before = tune(*words, "--storage", str(database))
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM tune_seen").fetchone()[0] > 0
        connection.execute("DROP TABLE tune_seen")
    done = tune(*words, "--storage", str(database))
    assert done.code == before.code == 0, done.err
    if words[0] == "explain":
        assert "Nothing was recorded of this launch." in done.out
    elif words[0] != "export":  # the JSON has what was seen of ranks
        assert done.out == before.out
