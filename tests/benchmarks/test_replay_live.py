"""Surfaces searched in running jobs."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from benchmarks import replay
from benchmarks.replay.windows import SWITCH_S, LiveMachine
from tests.study_surface import record
from tests.surfaces import document, setting, write
from tuner.model import Finished, Purpose, Setting
from tuner.study.history import History
from tuner.study.policy import Step


def surface(tmp_path: Path, cold: tuple[str, ...] = (), **made: Any) -> replay.Surface:
    named = document(**made) | {"cold": list(cold)}
    return replay.load(write(tmp_path / "bowl.json", named))


def play(loaded: replay.Surface, seed: int = 0, **options: Any) -> replay.Study:
    asked = {"live": "on", **options}
    return replay.play(loaded, replay.spec(loaded, seed=seed, options=asked), seed)


def measured(loaded: replay.Surface, *settings: Setting, neighbours: float = 0.0) -> list[Any]:
    """Windows of these settings, one after the other."""
    spec = replay.spec(loaded, options={"live": "on"})
    machine = LiveMachine(loaded, 1, spec, neighbours)
    history = History.judged(spec, (), baseline=loaded.setting(loaded.default))
    outcomes = []
    for number, each in enumerate(settings, start=1):
        outcome = machine.measure(number, Step(Purpose.SEARCH, each), None, history, None)
        history = history.with_records(
            (*history.records, record(number, each, Purpose.SEARCH, outcome))
        )
        outcomes.append(outcome)
    return outcomes


def test_neighbours_make_windows_differ(tmp_path: Path) -> None:
    def spread(neighbours: float) -> float:
        windows = measured(surface(tmp_path), *[setting(2, 2)] * 40, neighbours=neighbours)
        paces_s = [outcome.window.pace_s for outcome in windows]
        return float(max(paces_s) / min(paces_s))

    assert spread(0.0) < 1.3
    assert spread(0.5) > 1.7


def test_a_start_up_a_job_and_a_switch_a_setting(tmp_path: Path) -> None:
    first, second = measured(surface(tmp_path), setting(2, 2), setting(4, 2))
    assert first.window.job == second.window.job == 1
    assert 3.0 <= first.window.started_s <= 3.1
    assert second.window.started_s == 0
    assert second.window.switch_s == SWITCH_S
    assert second.window.discarded >= 1
    for outcome in (first, second):
        made = outcome.window.discarded + outcome.window.iterations
        beside_s = outcome.window.started_s + outcome.window.switch_s
        assert outcome.wall_s - beside_s == pytest.approx(made * outcome.window.pace_s, rel=0.4)


def test_what_a_window_says_is_what_launches_say(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    outcomes = measured(loaded, *[setting(2, 2), setting(4, 4)] * 12)
    for place, truth_s in ((0, 10.0), (1, 10.0 * math.exp(1.0))):
        times = [x.ending.elapsed_s for x in outcomes[place::2] if isinstance(x.ending, Finished)]
        assert statistics.median(times) == pytest.approx(truth_s, rel=0.03)


def test_a_study_finds_the_best_for_less(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    live, cold = play(loaded), play(loaded, live="off")
    assert live.best == cold.best == setting(2, 2)
    assert live.result.export == live.best
    assert live.result.search_s < cold.result.search_s / 2
    searched = len(live.searched)
    are_windows = [x.record.outcome.window is not None for x in live.launches]
    assert are_windows == [True] * searched + [False] * (len(live.launches) - searched)
    assert all(x.record.outcome.window is None for x in cold.launches)


def test_the_defaults_have_a_job_of_their_own_and_come_last(tmp_path: Path) -> None:
    study = play(surface(tmp_path, slope=0.2))
    purposes = [x.record.purpose for x in study.searched]
    place = purposes.index(Purpose.BASELINE)
    window = study.searched[place].record.outcome.window
    assert window is not None
    assert window.job == place + 1
    assert place > len(purposes) / 2
