"""Whatever another program or a bad disk did to a database: one error says where, and it ends."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.store.make_database import FOLDER, SPEC
from tuner.model.errors import TunerError, UsageError
from tuner.store import Store, schema

#: A view that never ends.
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of a study that has ended."""
    made = tmp_path / "tune.db"
    with closing(sqlite3.connect(made)) as raw:
        dump = FOLDER / f"version-{schema.SCHEMA_VERSION}.sql"
        raw.executescript(dump.read_text())
    return made


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script)


def read(path: Path) -> None:
    """Everything that is read of a study."""
    with Store.open(f"sqlite:///{path}", create=False) as store:
        store.studies()
        store.load(SPEC.name)
        store.latest()
        for record in store.launches(SPEC.name):
            store.telemetry(SPEC.name, record.number)
        store.folders(SPEC.name)


@pytest.mark.parametrize(
    ("script", "where"),
    [
        ("UPDATE tune_meta SET schema_version = 'abc'", "tune_meta"),
        ("UPDATE tune_studies SET spec = '[]'", "study 'kept'"),
        ("UPDATE tune_studies SET spec = '{}', state = 'strange'", "study 'kept'"),
        ("UPDATE tune_studies SET identity = '[]'", "study 'kept'"),
        ("UPDATE tune_studies SET best_s = 'abc'", "study 'kept'"),
        ("UPDATE tune_studies SET reason = x'ff00'", "study 'kept'"),
        ("UPDATE tune_studies SET best_setting = '[[1, 2]]'", "study 'kept'"),
        ("UPDATE tune_launches SET wall_s = 'abc' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET started_at = 'not a date' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET number = 'abc' WHERE number = 3", "launch 'abc'"),
        ("UPDATE tune_launches SET effects = '[{}]' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET progress = '[[1, []]]' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET setting = '[[1, 2]]' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET env = '[]' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET exit_code = 'x' WHERE number = 3", "launch 3"),
        ("DELETE FROM tune_samples WHERE launch_id = 3", "launch 3"),
        ("INSERT INTO tune_telemetry VALUES (3, 0, NULL, NULL, '[1]')", "telemetry of launch 3"),
        (f"UPDATE tune_launches SET argv = '{'[' * 5000}' WHERE number = 3", "launch 3"),
        ("UPDATE tune_launches SET log_tail = zeroblob(40000000)", "too long"),
        ("UPDATE tune_studies SET spec = printf('%.*c', 40000000, '[')", "too long"),
        (f"DROP TABLE tune_samples; CREATE VIEW tune_samples AS {ENDLESS}", "tune_samples"),
        (f"DROP TABLE tune_meta; CREATE VIEW tune_meta AS {ENDLESS}", "tune_meta"),
        ("DROP TABLE tune_samples; CREATE TABLE tune_samples (x)", "tune_samples"),
    ],
)
def test_a_damaged_or_foreign_row_is_one_error_that_names_it(
    path: Path, script: str, where: str
) -> None:
    change(path, script)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(path) in caught.value.message and where in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes_are_never_a_defect_of_tune(path: Path, seed: int) -> None:
    content, source = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(300):
        content[source.randrange(0 if seed % 2 else 100, len(content))] ^= source.randrange(1, 256)
    path.write_bytes(content)
    try:
        read(path)
    except TunerError as error:
        assert error.exit_code == 2, error


def test_a_file_system_without_free_inodes_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> SimpleNamespace:
        return SimpleNamespace(f_files=100, f_favail=0)

    path.chmod(0o600)
    monkeypatch.setattr(os, "statvfs", full)
    monkeypatch.setattr(
        "sqlite3.dbapi2.connect",
        lambda *_, **__: (_ for _ in ()).throw(
            sqlite3.OperationalError("unable to open database file")
        ),
    )
    with pytest.raises(TunerError, match="no free inodes"):
        Store.open(f"sqlite:///{path}", create=True)
