"""Databases as earlier versions left them: they open, hold the same, and go on."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from tests.store.make_database import FOLDER, SPEC, contents
from tests.study_surface import FakeRunner, nearly_flat
from tuner.model import IntRange, StudyState
from tuner.model.errors import BusyError
from tuner.store import Store, schema
from tuner.study import tune

VERSIONS = sorted(path.stem for path in FOLDER.glob("*.sql"))


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database of an earlier version."""
    path = tmp_path / f"{request.param}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / f"{request.param}.sql").read_text())
    return path


@pytest.fixture
def store(kept: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{kept}", create=False) as found:
        yield found


def test_this_version_is_among_them() -> None:
    assert f"version-{schema.SCHEMA_VERSION}" in VERSIONS


def test_it_holds_what_it_held(kept: Path, store: Store) -> None:
    expected = json.loads((FOLDER / f"{kept.stem}.json").read_text())
    # what later versions added is not compared: it was not there
    assert _common(json.loads(json.dumps(contents(store))), expected) == expected


def _common(found: object, expected: object) -> object:
    """What was found, without the names that are not expected; a float as it is expected."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {k: _common(v, expected[k]) for k, v in found.items() if k in expected}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [_common(f, e) for f, e in zip(found, expected, strict=True)]
    if isinstance(found, float) and isinstance(expected, float):
        return expected if math.isclose(found, expected, rel_tol=1e-9) else found
    return found


def test_it_goes_on(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))
    runner = FakeRunner(nearly_flat)
    wider = replace(SPEC.knobs[1], domain=IntRange(1, 5))
    more = replace(SPEC, trials=10, knobs=(SPEC.knobs[0], wider))
    found = tune(more, storage=str(kept), outputs=tmp_path, run=runner)
    assert found.state is StudyState.FINISHED
    assert found.launches > len(runner.settings) > 2
    with Store.open(f"sqlite:///{kept}", create=False) as store:
        made = store.launches(SPEC.name)
    assert [record.number for record in made] == list(range(1, len(made) + 1))
    told = optuna.load_study(study_name=SPEC.name, storage=f"sqlite:///{kept}").trials
    ours = {record.number: record.trial for record in made if record.trial is not None}
    assert {trial.user_attrs["launch"]: trial.number for trial in told} == ours


def test_it_gets_the_columns_of_this_version(kept: Path, store: Store) -> None:
    store.studies()
    with closing(sqlite3.connect(kept)) as raw:
        assert raw.execute("SELECT schema_version FROM tune_meta").fetchone() == (
            schema.SCHEMA_VERSION,
        )
        for table in schema.metadata.sorted_tables:
            found = [row[1] for row in raw.execute(f"PRAGMA table_info({table.name})")]
            assert {column.name for column in table.columns} <= set(found)


def test_one_that_is_locked_is_left_as_it_is(kept: Path) -> None:
    with closing(sqlite3.connect(kept, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        if kept.stem != VERSIONS[-1]:
            with pytest.raises(BusyError, match="locked"):
                Store.open(f"sqlite:///{kept}", create=False, busy_s=0.1)
        assert holder.execute("SELECT schema_version FROM tune_meta").fetchone() == (
            int(kept.stem[-1]),
        )


@pytest.mark.parametrize("create", [False, True])
def test_many_openings_at_once(kept: Path, tmp_path: Path, create: bool) -> None:
    for attempt in range(3):
        copy = shutil.copyfile(kept, tmp_path / f"{attempt}.db")
        open_together(8, copy, create=create)


def test_many_first_openings_at_once(tmp_path: Path) -> None:
    for attempt in range(3):
        open_together(8, tmp_path / f"{attempt}.db", create=True)


def open_together(number: int, path: Path, *, create: bool) -> None:
    """In so many threads at once."""
    ready = threading.Barrier(number)

    def opened() -> None:
        ready.wait()
        with Store.open(f"sqlite:///{path}", create=create) as store:
            store.studies()

    with ThreadPoolExecutor(number) as pool:
        for each in [pool.submit(opened) for _ in range(number)]:
            each.result()
