"""A study that measures settings in running jobs, on a synthetic machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.running_jobs import FakeJobs
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
from tuner.model import (
    BASELINE,
    Conclusion,
    ExclusionKind,
    Failed,
    LaunchRecord,
    Purpose,
    Result,
    Setting,
    StudySpec,
)
from tuner.study.events import LaunchStarted, Note

OFF_BY = 1.4


def run(
    folder: Path,
    jobs: FakeJobs,
    spec: StudySpec = SPEC,
    runner: FakeRunner | None = None,
    **options: Any,
) -> Result:
    return study_in(folder, runner or FakeRunner(), spec, jobs=jobs, **options)


def notes(events: list[Any]) -> list[str]:
    return [event.text for event in events_of(Note, events)]


def test_a_whole_study(folder: Path) -> None:
    jobs, runner, events = FakeJobs(), FakeRunner(), list[Any]()
    found = run(folder, jobs, CONFIRMED, runner, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    made = records_in(folder)
    assert all((r.outcome.window is not None) is r.purpose.stage.may_be_window for r in made)
    assert made[0].purpose is Purpose.WARM_UP and made[0].setting != BASELINE
    assert (found.windows, found.launches) == (len(jobs.settings), len(made))
    assert found.jobs == jobs.ends < found.windows, "each was ended, the last before the proof"
    assert found.search_s == pytest.approx(
        sum(r.outcome.wall_s for r in made if r.purpose is not Purpose.CONFIRM)
    )
    live = [event.number for event in events_of(LaunchStarted, events) if event.live]
    assert live == [record.number for record in made if record.outcome.window is not None]
    assert {each.iterations for each in jobs.models} == {100}
    assert jobs.models[0].incumbent_s is None and jobs.models[-1].incumbent_s == 1.0


#: Any knob may change in the running job; the first guess starts it.
ALL = frozenset({"omp_threads", "iterator_workers"})
OTHER = Setting.of({"omp_threads": 1, "iterator_workers": 1})


def of(folder: Path, setting: Setting) -> list[LaunchRecord]:
    made = records_in(folder)
    return [r for r in made if r.setting == setting and r.purpose is not Purpose.WARM_UP]


def test_a_setting_that_fails_in_a_window_is_launched_by_itself(folder: Path) -> None:
    found = run(folder, FakeJobs(can=ALL, crashes=OTHER))
    assert (found.failures, found.settings_failed) == (0, 0)
    window, own, *_ = of(folder, OTHER)
    assert window.outcome.window is not None and isinstance(window.outcome.ending, Failed)
    why = window.outcome.exclusion
    assert why is not None and why.kind is ExclusionKind.AFTER_SWITCH
    assert own.outcome.window is None and own.number == window.number + 1
    assert not isinstance(own.outcome.ending, Failed)


def test_live_and_cold_that_disagree_exclude_the_windows_and_end_live_measurement(
    folder: Path,
) -> None:
    def off(setting: Setting) -> float:
        return surface(setting) * (OFF_BY if setting == BEST else 1.0)

    jobs, events = FakeJobs(off), list[Any]()
    found = run(folder, jobs, CONFIRMED, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    aside = [r for r in records_in(folder) if r.outcome.exclusion]
    assert aside and all(
        r.outcome.exclusion is not None and r.outcome.exclusion.kind is ExclusionKind.LIVE_DISAGREES
        for r in aside
    )
    assert any("disagree" in text and "excluded" in text for text in notes(events))
    last = max(r.number for r in aside)
    assert all(r.outcome.window is None for r in records_in(folder) if r.number > last)
    assert sum("switched off" in text for text in found.notes) == 1
    assert not {record.number for record in aside} & counted_in(folder)
    assert any("excluded" in note for note in found.notes)
