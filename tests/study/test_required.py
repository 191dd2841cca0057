"""Only settings that meet --require are launched, whoever suggests them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.study_surface import SPEC, FakeRunner, played, records_in, study_in
from tuner.knobs.requirements import requirements_of
from tuner.model import Failed, FailureKind, Flag, IntRange, Knob, Layout, Setting

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


def time_s(setting: Setting) -> float | Failed:
    """Seconds; the program refuses a grid that is not of the ranks."""
    chosen = setting.as_dict()
    px, py, threads = (int(chosen.get(name, 4)) for name in ("px", "py", "omp_threads"))
    if setting.items and px * py != 4:
        return Failed(FailureKind.CRASHED, "the number of ranks must match px * py")
    return 1.0 + 0.5 * px + 0.1 * threads


def test_no_sampler_launches_another_setting(tmp_path: Path) -> None:
    runner = FakeRunner(time_s)
    found = study_in(tmp_path, runner, replace(GRID, sampler="random", trials=6))
    settings = {setting for setting in runner.settings if setting.items}
    assert all(requirements_of(GRID).meets(setting.as_dict()) for setting in settings)
    assert len(settings) >= 6
    assert found.candidate is not None
    assert not any(isinstance(r.outcome.ending, Failed) for r in records_in(tmp_path))


def test_earlier_launches_that_do_not_meet_it_are_of_another_space() -> None:
    before = played(replace(GRID, require=()), time_s)
    assert before.failed
    history = played(GRID, time_s, so_far=before)
    assert history.failed == 0
    assert len(history.tried) > history.trials, "what was tried before is not forgotten"
