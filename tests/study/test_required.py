"""Only settings that meet --require are launched, whoever suggests them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from tests.study_surface import (
    SPEC,
    FakeRunner,
    capped,
    events_of,
    played,
    records_in,
    study_in,
    surface,
)
from tuner.config.options import SAMPLERS
from tuner.knobs import space
from tuner.knobs.requirements import requirements_of
from tuner.model import Failed, FailureKind, Flag, IntRange, Knob, Layout, Purpose, Setting
from tuner.study import fewest, plugins
from tuner.study.events import Note

GRID = replace(
    SPEC,
    layout=Layout(4),
    command=("prog", "{px}", "{py}", "{out}"),
    knobs=(
        Knob("px", IntRange(1, 4), Flag(), default=4),
        Knob("py", IntRange(1, 4), Flag(), default=1),
        Knob("omp_threads", IntRange(1, 4), Flag("-t")),
    ),
    require=("px * py == ranks",),
    oversubscription=None,
    trials=9,
)

#: How often the same message is counted as one.
MISMATCH = "rank {}: the number of ranks must match px * py"


def time_s(setting: Setting) -> float | Failed:
    """Seconds; the program refuses a grid that is not of the ranks."""
    chosen = setting.as_dict()
    px, py, threads = (chosen.get(name, 4) for name in ("px", "py", "omp_threads"))
    assert isinstance(px, int) and isinstance(py, int) and isinstance(threads, int)
    if setting.items and px * py != 4:
        return Failed(FailureKind.CRASHED, f"in our words {'x' * px}", MISMATCH.format(px))
    return 1.0 + 0.5 * px + 0.1 * threads


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_launches_another_setting(tmp_path: Path, name: str) -> None:
    if packages := plugins.lacks(name):
        pytest.skip(f"{packages} is not installed")
    runner = FakeRunner(time_s)
    found = study_in(tmp_path, runner, replace(GRID, sampler=name))
    settings = {setting for setting in runner.settings if setting.items}
    assert all(requirements_of(GRID).meets(setting.as_dict()) for setting in settings)
    assert len(settings) > 6
    assert found.candidate is not None
    assert not any(isinstance(r.outcome.ending, Failed) for r in records_in(tmp_path))


def test_what_another_program_enqueues_is_told_why_it_is_not_launched(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tune.db'}"

    def enqueue(count: int) -> None:
        if count == 2:
            study = optuna.load_study(study_name=GRID.name, storage=url)
            study.enqueue_trial({"px": 3, "py": 3, "omp_threads": 1})

    runner = FakeRunner(time_s, before=enqueue)
    study_in(tmp_path, runner, GRID)
    assert all(setting.as_dict().get("px") != 3 for setting in runner.settings)
    trials = optuna.load_study(study_name=GRID.name, storage=url).trials
    (told,) = (trial for trial in trials if trial.params.get("px") == 3)
    assert told.user_attrs["redrawn"] == "does not meet --require px * py == ranks"


def test_the_space_is_counted_without_them_and_tried_to_its_end() -> None:
    history = played(replace(GRID, trials=50), time_s)
    assert history.size == history.most_trials == 3 * 4
    meets = history.requirements.meets
    assert all(meets(setting.as_dict()) and time_s(setting) for setting in history.tried)
    assert not history.failed


def test_a_large_space_of_which_little_is_left_is_searched() -> None:
    ranges = {"px": 32, "py": 32, "omp_threads": 64, "pz": 32, "depth": 100}
    knobs = tuple(Knob(name, IntRange(1, high), Flag(f"--{name}")) for name, high in ranges.items())
    text = "px * py * pz == 4096"
    spec = replace(GRID, command=("prog",), knobs=knobs, require=(text,), trials=20)

    def slope(setting: Setting) -> float:
        chosen = setting.as_dict()
        return 1.0 + sum(int(chosen.get(name, 64)) / high for name, high in ranges.items())

    history = played(spec, slope)
    assert history.trials >= 15
    assert all(requirements_of(spec).meets(setting.as_dict()) for setting in history.tried)
    best = min(slope(setting) for setting in history.tried)
    assert best < 1.5 * min(
        slope(s)
        for s in space.points(knobs[:2] + knobs[3:4])
        if requirements_of(spec).meets(s.as_dict())
    )


def test_earlier_launches_that_do_not_meet_it_are_of_another_space() -> None:
    before = played(replace(GRID, require=()), time_s)
    assert before.failed
    history = played(GRID, time_s, so_far=before)
    assert history.failed == 0
    assert history.outside


def test_what_it_names_is_never_left_out_and_counts_as_it_was_asked_for() -> None:
    spec = replace(SPEC, require=("omp_threads * iterator_workers == 4",))
    history = played(spec, surface, effects=capped("omp_threads", 2))
    assert not fewest.can_leave_out(history, "omp_threads")
    assert {s for s in history.tried if s.items} == set(
        space.points(spec.knobs, history.requirements)
    )
    assert all(
        requirements_of(spec).meets(record.setting.as_dict())
        for record in history.records
        if record.purpose is not Purpose.BASELINE
    )


def test_three_settings_that_fail_with_one_message_are_pointed_out_once(tmp_path: Path) -> None:
    events: list[object] = []
    spec = replace(GRID, require=())
    study_in(tmp_path, FakeRunner(time_s), spec, on_event=events.append)
    (text,) = (e.text for e in events_of(Note, events) if "one message" in e.text)
    assert text.startswith("3 settings failed with one message (launches ")
    assert MISMATCH.format("")[-20:] in text and "in our words" not in text
    assert "--require 'px * py * omp_threads == ranks', for example" in text
