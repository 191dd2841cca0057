"""A database of the first version: it opens, and keeps what it has."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.study_surface import BEST, CONFIRMED, MACHINE, SPEC, FakeRunner, nearly_flat
from tuner.model import (
    BASELINE,
    Conclusion,
    Finished,
    LaunchRecord,
    Outcome,
    Progress,
    Purpose,
    StudyState,
)
from tuner.model.errors import BusyError
from tuner.store import Store, codec, database, schema
from tuner.store.identity import identity
from tuner.study import result, tune

#: The tables as the first version made them.
TABLES = """
CREATE TABLE tune_meta (
    id INTEGER NOT NULL PRIMARY KEY, schema_version INTEGER NOT NULL,
    opened_at VARCHAR(40) NOT NULL
);
CREATE TABLE tune_studies (
    id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL UNIQUE,
    state VARCHAR(20) NOT NULL, reason TEXT NOT NULL, spec TEXT NOT NULL, identity TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL, updated_at VARCHAR(40) NOT NULL,
    forgiven_until INTEGER NOT NULL, best_setting TEXT, best_s FLOAT, baseline_s FLOAT,
    trials INTEGER NOT NULL, launches INTEGER NOT NULL, failures INTEGER NOT NULL
);
CREATE TABLE tune_launches (
    id INTEGER NOT NULL PRIMARY KEY,
    study_id INTEGER NOT NULL REFERENCES tune_studies (id) ON DELETE CASCADE,
    number INTEGER NOT NULL, purpose VARCHAR(20) NOT NULL, setting TEXT NOT NULL, trial INTEGER,
    folder TEXT NOT NULL, started_at VARCHAR(40) NOT NULL, wall_s FLOAT NOT NULL,
    exit_code INTEGER, failure_kind VARCHAR(40), failure_reason TEXT, log_tail TEXT,
    argv TEXT NOT NULL, env TEXT NOT NULL, machine TEXT NOT NULL, progress TEXT NOT NULL,
    observation TEXT NOT NULL, effects TEXT NOT NULL, UNIQUE (study_id, number)
);
CREATE INDEX ix_tune_launches_study_id ON tune_launches (study_id);
CREATE TABLE tune_samples (
    launch_id INTEGER NOT NULL REFERENCES tune_launches (id) ON DELETE CASCADE,
    "window" INTEGER NOT NULL, elapsed_s FLOAT NOT NULL, iterations INTEGER NOT NULL,
    PRIMARY KEY (launch_id, "window")
);
"""

LATER = {
    "tune_studies": {"conclusion", "finding"},
    "tune_launches": {"stopped", "load", "window", "exclusion"},
    "tune_samples": {"epochs", "loss"},
    "tune_telemetry": {"launch_id", "track", "host", "rank", "content"},
}

#: Fields of a spec that the first version did not know.
NEW_FIELDS = ("budget_s", "until", "precision", "oversubscription", "confirm")

LAUNCH = LaunchRecord(
    number=1,
    purpose=Purpose.SEARCH,
    setting=BEST,
    argv=("mpirun", "train"),
    env={"OMP_NUM_THREADS": "4"},
    folder="/some/where",
    started_at="2026-01-01T00:00:00+00:00",
    outcome=Outcome(Finished(1.5, 100), 2.5, 0, (Progress(50, 0.75), Progress(100, 1.5))),
    machine=MACHINE,
    trial=0,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of the first version with a study of one launch."""
    made = tmp_path / "old.db"
    spec = json.loads(codec.dumps(SPEC))
    for name in NEW_FIELDS:
        del spec[name]
    moment = "2026-01-01T00:00:00+00:00"
    words = codec.dumps(identity(SPEC))
    study = (1, SPEC.name, "finished", "done", json.dumps(spec), words, moment, moment, 0)
    best = (BEST.to_json(), 1.5, None, 1, 1, 0)
    launch = (
        *(1, 1, 1, "search", BEST.to_json(), 0, "/some/where", moment, 2.5, 0, None, None, None),
        *(codec.dumps(LAUNCH.argv), codec.dumps(LAUNCH.env), codec.dumps(MACHINE)),
        *("[[50, 0.75], [100, 1.5]]", '{"ranks": []}', "[]"),
    )
    with sqlite3.connect(made) as raw:
        raw.executescript(TABLES)
        raw.execute("INSERT INTO tune_meta VALUES (1, 1, ?)", [moment])
        raw.execute(f"INSERT INTO tune_studies VALUES ({marks(15)})", (*study, *best))
        raw.execute(f"INSERT INTO tune_launches VALUES ({marks(19)})", launch)
        raw.execute("INSERT INTO tune_samples VALUES (1, 0, 1.5, 100)")
    raw.close()
    return made


def marks(number: int) -> str:
    return ", ".join("?" * number)


def opened(path: Path, *, create: bool) -> Store:
    return Store.open(f"sqlite:///{path}", create=create)


def columns(path: Path, table: str) -> list[str]:
    with sqlite3.connect(path) as raw:
        return [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]


def version(path: Path) -> int:
    with sqlite3.connect(path) as raw:
        (found,) = raw.execute("SELECT schema_version FROM tune_meta").fetchone()
    return int(found)


def test_the_tables_of_the_first_version_lack_what_came_later(path: Path) -> None:
    for table in schema.metadata.sorted_tables:
        missing = {column.name for column in table.columns} - set(columns(path, table.name))
        assert missing == LATER.get(table.name, set())


@pytest.mark.parametrize("create", [False, True])
def test_it_keeps_its_rows_and_gets_the_columns(path: Path, create: bool) -> None:
    with opened(path, create=create) as store:
        (line,) = store.studies()
        assert (line.name, line.best_s, line.conclusion, line.finding) == (
            "surface",
            1.5,
            None,
            None,
        )
        row = store.load(SPEC.name)
        assert (row.state, row.best) == (StudyState.FINISHED, BEST)
        assert row.spec == replace(SPEC, confirm=True), "what it did not know has its default"
        assert store.launches(SPEC.name) == [LAUNCH]
        assert result(store, SPEC.name).conclusion is None
    for table, names in LATER.items():
        assert names <= set(columns(path, table))
    assert version(path) == schema.SCHEMA_VERSION


def test_a_second_opening_finds_nothing_to_do(path: Path) -> None:
    for create in (False, True, False):
        opened(path, create=create).close()
    found = columns(path, "tune_launches")
    assert len(found) == len(set(found))


def test_its_study_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(path.parent / "lock"))
    found = tune(CONFIRMED, storage=str(path), run=FakeRunner(nearly_flat))
    assert (found.conclusion, found.trials) == (Conclusion.FASTER, 6)
    with opened(path, create=False) as store:
        first, warm_up, *others = store.launches(SPEC.name)
        assert replace(first, trial=0) == LAUNCH and first.trial is not None
        assert (warm_up.purpose, warm_up.setting) == (Purpose.WARM_UP, BEST)
        assert BASELINE in {record.setting for record in others}
        assert result(store, SPEC.name) == found


# --- at the same time --------------------------------------------------------------------


def test_another_process_that_is_quicker(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds the columns between our look and our change."""
    look = database._columns

    def late(engine: sa.Engine, table: sa.Table) -> set[str]:
        found = look(engine, table)
        raw = sqlite3.connect(path, isolation_level=None)
        for name in LATER.get(table.name, set()) - set(columns(path, table.name)):
            raw.execute(f"ALTER TABLE {table.name} ADD COLUMN {name} TEXT")
        raw.close()
        return found

    monkeypatch.setattr(database, "_columns", late)
    with opened(path, create=True) as store:
        assert store.launches(SPEC.name) == [LAUNCH]
    assert version(path) == schema.SCHEMA_VERSION


def test_a_change_that_fails_for_another_reason_is_told(path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(BusyError, match="locked"):
            Store.open(f"sqlite:///{path}", create=False, busy_s=0.1)
    finally:
        holder.close()
    assert version(path) == 1


@pytest.mark.parametrize("create", [False, True])
def test_many_openings_at_once(path: Path, create: bool) -> None:
    for attempt in range(5):
        copy = path.with_name(f"{attempt}.db")
        shutil.copyfile(path, copy)
        assert together(8, partial(open_and_close, copy, create)) == []
        assert version(copy) == schema.SCHEMA_VERSION
        for table in LATER:
            assert len(columns(copy, table)) == len(schema.metadata.tables[table].columns)


def open_and_close(path: Path, create: bool) -> None:
    opened(path, create=create).close()


def together(number: int, call: Callable[[], None]) -> list[BaseException]:
    """Call it in so many threads at once; what they raised."""
    ready, errors = threading.Barrier(number), list[BaseException]()

    def one() -> None:
        ready.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
