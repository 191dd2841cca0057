"""A database with one finished study, and a way to call the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.study_samples import study
from tuner.cli.main import main
from tuner.results.study_view import StudyView
from tuner.store import Store
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
) -> Iterator[Tune]:
    """Runs ``tune`` in this process, in an empty folder and without the user's own variables."""
    monkeypatch.chdir(tmp_path)
    for name in ("TUNE_STORAGE", "TUNE_MPIRUN", "TUNE_DEBUG", "_TUNE_COMPLETE"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str) -> Done:
        code = main(args)
        return Done(code, *capfd.readouterr())

    yield call


def store_study(path: Path, data: StudyView) -> Path:
    """Put a study into a database as a run would."""
    result = data.result
    with Store.open(f"sqlite:///{path}", create=True) as store:
        store.create(data.spec)
        for record in data.records:
            store.add(data.spec.name, record)
        store.set_state(data.spec.name, result.state, result.reason)
        store.set_summary(data.spec.name, summary(result))
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with the study ``mnist``."""
    return store_study(tmp_path / "my tune.db", study())
