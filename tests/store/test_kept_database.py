"""Databases as earlier versions left them: they open, hold the same, and go on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from tests.store.make_database import FOLDER, SPEC, contents
from tests.study_surface import FakeRunner, nearly_flat
from tuner.model import IntRange, StudyState
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
    """What was found, without the names that are not expected."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {k: _common(v, expected[k]) for k, v in found.items() if k in expected}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [_common(f, e) for f, e in zip(found, expected, strict=True)]
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
