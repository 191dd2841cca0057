"""How launches and a study on a surface go."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import replay
from benchmarks.replay.machine import ENTRIES, STOP_S, TICK_S, VirtualMachine
from tests.surfaces import setting, surface
from tuner.model import Conclusion, Failed, Finished, Stopped
from tuner.search.stopper import GoOn, TimeLimitStopper
from tuner.search.throughput import startup_s


def play(loaded: replay.Surface, seed: int = 0, **options: Any) -> replay.Study:
    return replay.play(loaded, replay.spec(loaded, seed=seed, options=options), seed)


def test_a_launch_takes_its_start_up_and_its_run(tmp_path: Path) -> None:
    machine = VirtualMachine(surface(tmp_path), seed=1)
    played = machine.launch(setting(2, 2), None)
    assert isinstance(played.ending, Finished)
    own_s = startup_s(played.progress)
    assert own_s is not None
    assert played.wall_s == machine.clock_s == pytest.approx(own_s + played.ending.elapsed_s)
    assert len(played.progress) == ENTRIES
    assert played.progress[-1].iteration == played.ending.iterations == 100
    assert played.progress[-1].elapsed_s == pytest.approx(played.ending.elapsed_s)


def test_neighbours_take_their_share_of_launches_while_they_are_on(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    quiet, busy = VirtualMachine(loaded, seed=1), VirtualMachine(loaded, seed=1, neighbours=0.5)
    slower = []
    for _ in range(60):
        alone, beside = (machine.launch(setting(2, 2), None) for machine in (quiet, busy))
        assert isinstance(beside.ending, Finished)
        assert beside.progress[-1].elapsed_s == pytest.approx(beside.ending.elapsed_s)
        slower.append(beside.wall_s / alone.wall_s)
    assert busy.clock_s > 1.2 * quiet.clock_s
    assert min(slower) == pytest.approx(1.0, abs=0.1)
    assert max(slower) == pytest.approx(2.0, abs=0.2)


def test_a_running_launch_shows_only_what_its_log_would(tmp_path: Path) -> None:
    machine = VirtualMachine(surface(tmp_path), seed=1)
    shown: list[tuple[int, float, float | None]] = []

    class Stopper(TimeLimitStopper):
        def __call__(self, log: Any, since_s: float, startup_s: float | None, /) -> GoOn | Stopped:
            shown.append((len(log), since_s, startup_s))
            if len(log) < 3:
                return GoOn()
            return Stopped(1.0, 20.0, 10.0, 30.0, 0.1, "drift")

    played = machine.launch(setting(2, 2), Stopper(0.0))
    assert {entries for entries, _, own_s in shown if own_s is None} == {0}
    assert {own_s for entries, _, own_s in shown if entries} == {startup_s(played.progress)}
    times = [since_s for _, since_s, _ in shown]
    assert times == sorted(set(times))
    assert max(b - a for a, b in pairwise(times)) <= TICK_S
    assert isinstance(played.ending, Stopped)
    assert len(played.progress) == 3
    assert machine.clock_s == played.wall_s == shown[-1][1] + STOP_S


def test_a_study_finds_and_proves_the_best(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    study = play(loaded)
    assert study.best == study.result.export == setting(2, 2)
    assert study.conclusion is Conclusion.FASTER
    assert study.result.reference is not None
    assert study.result.reference.setting == loaded.setting(loaded.default)
    assert study.finding is not None
    assert 1 < study.finding.low <= math.exp(0.5 * 3)


def test_the_same_seed_plays_the_same_study(tmp_path: Path) -> None:
    loaded = surface(tmp_path, failing=8)
    study, again, other = play(loaded), play(loaded), play(loaded, seed=1)
    assert study.launches == again.launches != other.launches
    assert study.result.reference is not None
    assert study.result.reference.setting == setting(4, 4), "the first guess that worked"
    clocks = [launched.t_s for launched in study.launches]
    assert clocks == sorted(clocks)
    for launched in study.launches:
        has_failed = isinstance(launched.record.outcome.ending, Failed)
        assert has_failed == (launched.elapsed_s == 0)
