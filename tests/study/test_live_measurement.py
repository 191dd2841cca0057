"""A study that measures settings in running jobs, on a synthetic machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import (
    BEST,
    CONFIRMED,
    SPEC,
    STARTUP_S,
    FakeRunner,
    counted_in,
    events_of,
    records_in,
    study_in,
    surface,
)
from tuner.knobs import knob
from tuner.launch.request import MeasurementRequest
from tuner.live.eligibility import is_reachable
from tuner.live.full_run import FullRunModel
from tuner.live.jobs import LiveJobs
from tuner.model import (
    Choice,
    Conclusion,
    ExclusionKind,
    Finished,
    Outcome,
    Purpose,
    Setting,
    Window,
)
from tuner.study.events import LaunchStarted, Note

OFF_BY = 1.4
SWITCH_S, SHARE = 0.1, 0.2

#: What may change in a running job.
CAN = frozenset({"omp_threads"})


@dataclass
class FakeJobs(LiveJobs):
    """Measures settings in windows: a fifth of a run each; keeps what was requested."""

    time_s: Callable[[Setting], float] = surface
    refusal: str = ""
    refused_switch: str = ""
    ends_by_itself: bool = False
    job: tuple[int, Setting] | None = None
    settings: list[Setting] = field(default_factory=list)
    models: list[FullRunModel] = field(default_factory=list)
    ends: int = 0

    def window(self, request: MeasurementRequest, model: FullRunModel) -> Outcome:
        setting = request.setting
        self.settings.append(setting)
        self.models.append(model)
        started_s = 0.0
        if self.job is None or not is_reachable(self.job[1], setting, CAN):
            self.end()
            self.job = (request.number, setting)
            started_s = STARTUP_S
        job, value, at_s = self.job[0], self.time_s(setting), float(request.number)
        pace_s = value / model.figure_s(1.0)
        window = Window(job, tuple(CAN), started_s, SWITCH_S, 1, 20, pace_s, 0.005, at_s)
        wall_s = started_s + SWITCH_S + SHARE * value
        return Outcome(Finished(value, model.iterations), wall_s, None, window=window)

    def end(self) -> None:
        self.ends += self.job is not None
        self.job = None


def test_a_whole_study(folder: Path) -> None:
    jobs, events = FakeJobs(), list[Any]()
    found = study_in(folder, FakeRunner(), CONFIRMED, jobs=jobs, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    made = records_in(folder)
    assert all((r.outcome.window is not None) is r.purpose.stage.may_be_window for r in made)
    assert made[0].purpose is Purpose.WARM_UP and not made[0].setting.is_baseline
    assert (found.windows, found.launches) == (len(jobs.settings), len(made))
    assert found.jobs == jobs.ends < found.windows, "each was ended, the last before the proof"
    walls_s = [r.outcome.wall_s for r in made if r.purpose is not Purpose.CONFIRM]
    assert found.search_s == pytest.approx(sum(walls_s))
    live = [event.number for event in events_of(LaunchStarted, events) if event.live]
    assert live == [record.number for record in made if record.outcome.window is not None]
    assert {each.iterations for each in jobs.models} == {100}
    assert jobs.models[0].incumbent_s is None and jobs.models[-1].incumbent_s == 1.0


def test_each_number_of_ranks_has_a_job_of_its_own_and_a_note_says_so(folder: Path) -> None:
    ranks = replace(knob("ranks"), domain=Choice((1, 2)), default=SPEC.layout.ranks)
    spec, jobs, events = replace(SPEC, knobs=(*SPEC.knobs, ranks)), FakeJobs(), list[Any]()
    found = study_in(folder, FakeRunner(), spec, jobs=jobs, on_event=events.append)
    ranks_of_jobs = {(r.job, r.setting.as_dict()["ranks"]) for r in records_in(folder) if r.job}
    assert len(ranks_of_jobs) == found.jobs >= 2
    notes = [event.text for event in events_of(Note, events)]
    assert sum("each number of ranks is measured in a job of its own" in n for n in notes) == 1


def test_live_and_cold_that_disagree_exclude_the_windows_and_end_live_measurement(
    folder: Path,
) -> None:
    def off(setting: Setting) -> float:
        return surface(setting) * (OFF_BY if setting == BEST else 1.0)

    jobs, events = FakeJobs(off), list[Any]()
    found = study_in(folder, FakeRunner(), CONFIRMED, jobs=jobs, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    whys = {r.number: r.outcome.exclusion for r in records_in(folder) if r.outcome.exclusion}
    assert {why.kind for why in whys.values()} == {ExclusionKind.LIVE_DISAGREES}
    notes = [event.text for event in events_of(Note, events)]
    assert any("disagree" in text and "excluded" in text for text in notes)
    assert all(r.outcome.window is None for r in records_in(folder) if r.number > max(whys))
    assert sum("switched off" in text for text in found.notes) == 1
    assert not whys.keys() & counted_in(folder)
    assert any("excluded" in note for note in found.notes)
