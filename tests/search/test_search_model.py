"""The model: near where it was measured, unsure where it was not."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tuner.knobs.conditions import KnobAxis
from tuner.model import Progress, Purpose
from tuner.search import load_numpy
from tuner.search.gaussian import Evidence, Gaussian, fit
from tuner.search.grid import Grid, Key, Space
from tuner.search.kernel import Kernel
from tuner.search.launch_groups import Group, SearchObservation, grouped, noise
from tuner.search.scoring import candidates, gradient
from tuner.search.throughput import Pace

GRID = Grid(Space((KnobAxis("a", tuple(range(1, 17))), KnobAxis("b", ("x", "y", "z"))), 2, 8))


def model(times: dict[Key, float], runs: float = 4.0) -> Gaussian:
    rows = GRID.rows(list(times))
    logs = np.log(np.array(list(times.values())))
    data = Evidence(rows, logs, np.full(len(rows), runs), np.zeros(len(rows)))
    return Gaussian(Kernel(GRID), data, 0)


TIMES: dict[Key, float] = {(1, "x"): 30.0, (4, "x"): 12.0, (8, "x"): 10.0, (16, "x"): 14.0}


def test_it_predicts_what_was_measured_and_is_less_sure_further_away() -> None:
    mean, sd = model(TIMES).predict(GRID.rows(list(TIMES)))
    assert np.exp(mean) == pytest.approx(list(TIMES.values()), rel=0.06)
    assert (sd < 0.06).all()
    _, sd = model(TIMES).predict(GRID.rows([(8, "x"), (9, "x"), (8, "z")]))
    assert sd[0] < sd[1] < sd[2]


def test_the_draws_agree_with_the_prediction() -> None:
    rows = GRID.rows([(8, "x"), (2, "y")])
    fitted = model(TIMES)
    drawn = fitted.sample(rows, 4000, np.random.default_rng(1))
    mean, sd = fitted.predict(rows)
    assert drawn.mean(0) == pytest.approx(mean, abs=0.05)
    assert drawn.std(0) == pytest.approx(sd, rel=0.15, abs=0.01)


def test_a_thousand_settings_are_thinned() -> None:
    grid = Grid(Space((KnobAxis("a", tuple(range(1, 65))), KnobAxis("b", tuple(range(32)))), 2, 8))
    kernel = Kernel(grid)
    assert grid.all is not None
    keys = [grid.key(row) for row in grid.all[::2]]
    groups = {key: Group(key, [float(n % 7)], launches=1) for n, key in enumerate(keys)}
    fitted = fit(kernel, groups, 0)
    assert fitted is not None
    assert len(fitted.data.rows) < 170


def test_a_large_space_is_looked_at_in_part() -> None:
    knobs = tuple(KnobAxis(f"k{n}", tuple(range(1, 17))) for n in range(4))
    grid = Grid(Space((*knobs, KnobAxis("one", (1,))), 2, 8))
    assert grid.all is None
    centre: Key = (3, 3, 3, 3, 1)
    groups = {centre: Group(centre, [1.0], launches=1)}
    rows = candidates(Kernel(grid), groups, np.random.default_rng(0))
    keys = {grid.key(row) for row in rows}
    assert {centre, (4, 3, 3, 3, 1), (3, 3, 3, 7, 1), (16, 3, 3, 3, 1)} <= keys
    assert len(keys) == len(rows) < 2000


def test_the_gain_is_the_expected_improvement_of_the_mean() -> None:
    rng = np.random.default_rng(2)
    ahead, sd, noise_sd = np.array([-0.1, 0.0, 0.2]), np.array([0.1, 0.2, 0.3]), np.full(3, 0.05)
    shift = sd**2 / np.hypot(sd, noise_sd)
    drawn = ahead + shift * rng.standard_normal((200_000, 3))
    assert gradient(ahead, sd, noise_sd) == pytest.approx(np.maximum(drawn, 0).mean(0), rel=0.02)


def test_the_noise_is_learned_from_the_launches() -> None:
    pace = Pace.of([Progress(10 * k, 2.0 + k) for k in range(1, 11)])
    seen = SearchObservation(
        (1, "x"), "finished", Purpose.GUESS, 15.0, 12.0, startup_s=3.0, pace=pace
    )
    at_the_end = SearchObservation((1, "x"), "finished", Purpose.GUESS, 12.0, 10.0, pace=Pace(None))
    learned = noise([seen, seen, at_the_end], 0.04)
    assert (learned.startup_s, learned.run_sd) == (3.0, 0.04)
    assert learned.interval == 10
    assert learned.warm_up_iterations == pytest.approx(40.0)
    assert learned.pace_cv < 0.05


def test_a_group_counts_every_launch() -> None:
    key: Key = (1, "x")
    history = [
        SearchObservation(key, "finished", Purpose.GUESS, 12.0, 10.0),
        SearchObservation(key, "killed", Purpose.REPEAT, 3.0, None, 15.0),
        SearchObservation(key, "failed", Purpose.REPEAT, 1.0),
        SearchObservation(None, "finished", Purpose.BASELINE, 9.0, 8.0),
    ]
    groups = grouped(history)
    assert list(groups) == [key]
    assert (groups[key].launches, groups[key].failures, groups[key].only_failed) == (3, 1, False)


def test_loading_numpy_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    load_numpy()
    assert dict(os.environ) == before
