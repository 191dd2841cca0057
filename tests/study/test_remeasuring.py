"""Launches that are made again: beside other processes, and since the user wants them to be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.study_surface import BEST, CONFIRMED, SPEC, FakeRunner, events_of, surface
from tuner.model import Load, Outcome, Purpose, StudyState
from tuner.store.store import Store
from tuner.study import result, tune
from tuner.study.events import LaunchEnded, Note
from tuner.study.history import History
from tuner.study.interference import REMEASURED
from tuner.study.optuna_trials import Projection

BUSY = Load(3.0, "pid 6263 (python)")


@dataclass
class LoadedRunner(FakeRunner):
    """Runs launches beside others, by the count of launches before."""

    load: Callable[[int], Load] = lambda _: Load(0.0)

    def __call__(self, *args: Any, **options: Any) -> Outcome:
        number = len(self.settings)
        return replace(super().__call__(*args, **options), load=self.load(number))


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them: making Optuna's takes half a second."""
    path = tmp_path_factory.mktemp("template") / "tune.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        Projection(store, "none").close()
    return path


@pytest.fixture
def database(tmp_path: Path, template: Path) -> Path:
    return Path(shutil.copyfile(template, tmp_path / "tune.db"))


def plan_of(database: Path) -> History:
    with Store.open(f"sqlite:///{database}", create=False) as store:
        return History.judged(store.load(SPEC.name).spec, tuple(store.launches(SPEC.name)))


def told(database: Path) -> list[int]:
    url = f"sqlite:///{database}"
    trials = optuna.load_study(study_name=SPEC.name, storage=url).trials
    return [trial.user_attrs["launch"] for trial in trials]


def test_a_disturbed_launch_is_made_again(database: Path) -> None:
    """With half of its time each disturbed launch would be the best, if it counted."""
    runner = LoadedRunner(load=lambda number: BUSY if number in {4, 6} else Load(0.0))
    events: list[Any] = []
    found = tune(SPEC, storage=str(database), run=runner, on_event=events.append)
    assert found.best is not None
    assert found.best.setting == BEST
    plan = plan_of(database)
    aside = [record for record in plan.records if record.outcome.exclusion]
    assert [record.number for record in aside] == [5, 7]
    for record in aside:
        again = plan.records[record.number]
        assert (again.setting, again.purpose) == (record.setting, record.purpose)
        assert not again.outcome.exclusion
    assert not {5, 7} & set(told(database))
    assert {6, 8} <= set(told(database)) | {r.number for r in plan.records if r.trial is None}
    ended = [each for each in events_of(LaunchEnded, events) if each.record.number in {5, 7}]
    assert [each.measurement for each in ended] == [None, None]
    assert any(note.startswith("2 launches were excluded") for note in found.notes)


def test_the_course_is_the_same_as_on_a_quiet_machine(database: Path) -> None:
    other, spec = database.with_name("quiet.db"), replace(CONFIRMED, trials=3)
    shutil.copyfile(database, other)
    busy = LoadedRunner(load=lambda number: BUSY if number % 5 == 4 else Load(0.0))
    tune(spec, storage=str(database), run=busy)
    tune(spec, storage=str(other), run=FakeRunner())
    plan = plan_of(database)
    assert any(record.outcome.exclusion for record in plan.records)
    assert [r.setting for r in plan.valid] == [r.setting for r in plan_of(other).valid]


def test_what_never_becomes_quiet_counts_as_it_is(database: Path) -> None:
    runner = LoadedRunner(load=lambda number: BUSY if number >= 4 else Load(0.0))
    events: list[Any] = []
    found = tune(SPEC, storage=str(database), run=runner, on_event=events.append)
    assert found.state is StudyState.FINISHED
    aside = [r for r in plan_of(database).records if r.outcome.exclusion]
    assert [record.number for record in aside] == [5, 6]
    notes = [event.text for event in events_of(Note, events)]
    assert any(note.startswith("launch 7 counts all the same, 3 times in a row") for note in notes)


def test_remeasuring_counts_nothing_of_before_and_keeps_it(database: Path) -> None:
    storage = str(database)
    before = tune(SPEC, storage=storage, run=FakeRunner())
    runner = FakeRunner()
    assert tune(SPEC, storage=storage, run=runner).launches == before.launches
    assert runner.settings == []
    events: list[Any] = []
    slower = FakeRunner(time_s=lambda setting: 3.0 * surface(setting))
    after = tune(SPEC, storage=storage, run=slower, remeasure=True, on_event=events.append)
    assert after.launches == 2 * before.launches
    assert after.trials == before.trials
    assert before.best is not None
    assert after.best is not None
    assert after.best.elapsed_s == 3.0 * (before.best.elapsed_s or 0.0)
    assert f"{before.launches} earlier launches are not counted any more (--remeasure)" in {
        event.text for event in events_of(Note, events)
    }
    assert f"{before.launches} earlier launches not counted: --remeasure" in after.notes
    records = plan_of(database).records
    old, new = records[: before.launches], records[before.launches :]
    assert {record.outcome.exclusion for record in old} == {REMEASURED}
    assert {record.outcome.exclusion for record in new} == {None}
    assert all(number > before.launches for number in told(database))
    with Store.open(f"sqlite:///{database}", create=False) as store:
        assert result(store, SPEC.name) == after


def test_remeasuring_is_done_once_and_continued_without_the_option(database: Path) -> None:
    storage = str(database)
    before = tune(SPEC, storage=storage, run=FakeRunner())

    def full(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(SPEC, storage=storage, run=FakeRunner(before=full), remeasure=True)
    runner = FakeRunner()
    after = tune(SPEC, storage=storage, run=runner)
    assert after.state is StudyState.FINISHED
    assert after.trials == before.trials
    measured = [r for r in plan_of(database).valid if r.purpose is not Purpose.WARM_UP]
    assert len(measured) == before.launches - 1
