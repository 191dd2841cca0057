"""Launches that are made again: beside other processes, and since the user wants them to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import (
    BEST,
    CONFIRMED,
    SPEC,
    FakeRunner,
    counted_in,
    events_of,
    records_in,
    study_in,
    surface,
)
from tuner.launch.request import MeasurementRequest
from tuner.model import Load, Outcome, Purpose, StudyState
from tuner.results import study_view
from tuner.store.store import Store
from tuner.study.events import LaunchEnded, Note
from tuner.study.history import History
from tuner.study.tuning import REMEASURED

BUSY = Load(3.0, "pid 6263 (python)")


@dataclass
class LoadedRunner(FakeRunner):
    """Runs launches beside others, by the count of launches before."""

    load: Callable[[int], Load] = lambda _: Load(0.0)

    def __call__(self, request: MeasurementRequest) -> Outcome:
        number = len(self.settings)
        return replace(super().__call__(request), load=self.load(number))


def history_of(folder: Path) -> History:
    return History.judged(SPEC, records_in(folder))


def test_a_disturbed_launch_is_made_again(folder: Path) -> None:
    """With half of its time each disturbed launch would be the best, if it counted."""
    runner = LoadedRunner(load=lambda number: BUSY if number in {4, 6} else Load(0.0))
    events: list[Any] = []
    found = study_in(folder, runner, on_event=events.append)
    assert found.best is not None
    assert found.best.setting == BEST
    history = history_of(folder)
    aside = [record for record in history.records if record.outcome.exclusion]
    assert [record.number for record in aside] == [5, 7]
    for record in aside:
        again = history.records[record.number]
        assert (again.setting, again.purpose) == (record.setting, record.purpose)
        assert not again.outcome.exclusion
    assert not {5, 7} & counted_in(folder)
    assert {6, 8} <= counted_in(folder) | {r.number for r in history.records if r.trial is None}
    ended = [each for each in events_of(LaunchEnded, events) if each.record.number in {5, 7}]
    assert [each.measurement for each in ended] == [None, None]
    assert any(note.startswith("2 launches were excluded") for note in found.notes)


def test_the_course_is_the_same_as_on_a_quiet_machine(
    folder: Path, folders: Callable[[str], Path]
) -> None:
    other, spec = folders("quiet"), replace(CONFIRMED, trials=3)
    busy = LoadedRunner(load=lambda number: BUSY if number % 5 == 4 else Load(0.0))
    study_in(folder, busy, spec)
    study_in(other, FakeRunner(), spec)
    history = history_of(folder)
    assert any(record.outcome.exclusion for record in history.records)
    assert [r.setting for r in history.valid] == [r.setting for r in history_of(other).valid]


def test_remeasuring_counts_nothing_of_before_and_keeps_it(folder: Path) -> None:
    before = study_in(folder, FakeRunner())
    runner = FakeRunner()
    assert study_in(folder, runner).launches == before.launches
    assert runner.settings == []
    events: list[Any] = []
    slower = FakeRunner(time_s=lambda setting: 3.0 * surface(setting))
    after = study_in(folder, slower, remeasure=True, on_event=events.append)
    assert after.launches == 2 * before.launches
    assert after.trials == before.trials
    assert before.best is not None
    assert after.best is not None
    assert after.best.elapsed_s == 3.0 * (before.best.elapsed_s or 0.0)
    assert f"{before.launches} earlier launches are not counted any more (--remeasure)" in {
        event.text for event in events_of(Note, events)
    }
    assert f"{before.launches} earlier launches not counted: --remeasure" in after.notes
    records = history_of(folder).records
    old, new = records[: before.launches], records[before.launches :]
    assert {record.outcome.exclusion for record in old} == {REMEASURED}
    assert {record.outcome.exclusion for record in new} == {None}
    assert all(number > before.launches for number in counted_in(folder))
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        assert study_view.load(store, SPEC.name).result == after


def test_remeasuring_is_done_once_and_continued_without_the_option(folder: Path) -> None:
    before = study_in(folder, FakeRunner())

    def full(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_in(folder, FakeRunner(before=full), remeasure=True)
    runner = FakeRunner()
    after = study_in(folder, runner)
    assert after.state is StudyState.FINISHED
    assert after.trials == before.trials
    measured = [r for r in history_of(folder).valid if r.purpose is not Purpose.WARM_UP]
    assert len(measured) == before.launches - 1
