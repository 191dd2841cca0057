"""Studies on a small synthetic surface: a bowl with its best at 2 threads and 2 workers."""

from __future__ import annotations

import math
import random
from itertools import pairwise, product
from typing import Any

import pytest

from benchmarks import replay
from benchmarks.replay.machine import STOP_S, TICK_S, VirtualMachine
from benchmarks.replay.surface import Surface, of_document
from tuner.model import Conclusion, Failed, Setting, Stopped
from tuner.search.stopper import GoOn, TimeLimitStopper
from tuner.search.throughput import startup_s

THREADS, WORKERS = (1, 2, 4, 8), (1, 2, 4)


def setting(threads: int, workers: int) -> Setting:
    return Setting.of({"omp_threads": threads, "iterator_workers": workers})


def surface(failing: int = 99) -> Surface:
    """A surface; from so many threads on points fail."""
    rng, points = random.Random(5), []
    for threads, workers in product(THREADS, WORKERS):
        point: dict[str, Any] = {"setting": setting(threads, workers).as_dict()}
        if threads >= failing:
            points.append(point | {"failed": True, "fail_after_s": 2.0, "reason": "out of memory"})
            continue
        away = abs(math.log2(threads / 2)) + abs(math.log2(workers / 2))
        middle_s = 10.0 * math.exp(0.5 * away)
        runs = [
            [round(3 + 0.1 * rng.random(), 3), 0.2, middle_s * math.exp(0.02 * rng.gauss(0, 1))]
            for _ in range(8)
        ]
        points.append(point | {"runs": runs, "truth_s": middle_s})
    return of_document(
        {
            "name": "bowl",
            "machine": {"physical_cores": 8},
            "ranks": 2,
            "iterations": 100,
            "knobs": {"omp_threads": list(THREADS), "iterator_workers": list(WORKERS)},
            "default": {"omp_threads": 8, "iterator_workers": 4},
            "points": points,
        }
    )


def play(loaded: Surface, seed: int = 0, **options: Any) -> replay.Study:
    return replay.play(loaded, replay.spec(loaded, seed=seed, options=options), seed)


def test_a_running_launch_shows_only_what_its_log_would() -> None:
    machine = VirtualMachine(surface(), seed=1)
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


def test_a_study_finds_and_proves_the_best_and_in_running_jobs_for_less() -> None:
    loaded = surface()
    cold, live = play(loaded), play(loaded, live="on")
    assert live.best == cold.best == cold.result.export == setting(2, 2)
    assert cold.conclusion is Conclusion.FASTER
    assert cold.result.baseline is not None
    assert cold.result.baseline.setting == loaded.setting(loaded.default)
    assert cold.finding is not None
    assert 1 < cold.finding.low <= math.exp(0.5 * 3)
    assert live.result.search_s < cold.result.search_s / 2
    searched = len(live.searched)
    are_windows = [x.record.outcome.window is not None for x in live.launches]
    assert are_windows == [True] * searched + [False] * (len(live.launches) - searched)
    times_s = [s.elapsed_s for x in live.searched for s in x.record.outcome.samples]
    assert min(times_s) == pytest.approx(10.0, rel=0.2)


def test_the_same_seed_plays_the_same_study() -> None:
    loaded = surface(failing=8)
    study, again, other = play(loaded), play(loaded), play(loaded, seed=1)
    assert study.launches == again.launches != other.launches
    assert study.conclusion is Conclusion.BASELINE_FAILS
    clocks = [launched.t_s for launched in study.launches]
    assert clocks == sorted(clocks)
    for launched in study.launches:
        has_failed = isinstance(launched.record.outcome.ending, Failed)
        assert has_failed == (launched.elapsed_s == 0)
