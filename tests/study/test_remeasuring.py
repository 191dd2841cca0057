"""Launches that are made again since the user wants them to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.study_surface import (
    SPEC,
    FakeRunner,
    counted_in,
    events_of,
    records_in,
    study_in,
    surface,
)
from tuner.results import study_view
from tuner.store.store import Store
from tuner.study.events import Note
from tuner.study.history import History
from tuner.study.tuning import REMEASURED


def history_of(folder: Path) -> History:
    return History.judged(SPEC, records_in(folder))


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
