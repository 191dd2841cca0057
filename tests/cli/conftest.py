"""A database with one finished study, and ways to call the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.json_schema import check
from tests.kept_launches import keep
from tests.study_samples import study
from tuner.cli.main import main
from tuner.results.study_view import StudyView
from tuner.store.store import Store
from tuner.study.findings import summary


class Done(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


Tune = Callable[..., Done]


@pytest.fixture
def tune(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Tune:
    """Runs ``tune`` in this process, in an empty folder and without the user's own variables.

    A JSON document that it prints must be one of the published schema.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("TUNE_STORAGE", "TUNE_MPIRUN", "TUNE_DEBUG", "_TUNE_COMPLETE"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str) -> Done:
        done = Done(main(args), *capfd.readouterr())
        if "--json" in args and done.out.startswith("{"):
            check(json.loads(done.out))
        return done

    return call


@pytest.fixture
def tune_on(tune: Tune, tmp_path: Path) -> Tune:
    """Runs a command of ``tune`` on a study, which is put into a database first."""
    numbers = count()

    def call(data: StudyView, command: str, *args: str) -> Done:
        path = store_study(tmp_path / f"{next(numbers)}.db", data)
        return tune(command, "--storage", str(path), *args)

    return call


@pytest.fixture
def mpirun(tmp_path: Path) -> str:
    """An mpirun that says which it is, and can no more."""
    path = tmp_path / "mpirun"
    path.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    path.chmod(0o755)
    return str(path)


def store_study(path: Path, data: StudyView) -> Path:
    """Put a study into a database as a run would."""
    result = data.result
    with Store.open(f"sqlite:///{path}", create=True) as store:
        store.create(data.spec)
        keep(store, data.spec, data.records)
        store.set_state(data.spec.name, result.state, result.reason)
        store.set_summary(data.spec.name, summary(result))
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with the study ``mnist``."""
    return store_study(tmp_path / "my tune.db", study())
