"""The space and the model: what lies beyond a failure, near a measurement, and far away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs.conditions import KnobAxis
from tuner.model import Progress, Purpose
from tuner.search.grid import Grid, Key, Space
from tuner.search.kernel import Kernel
from tuner.search.launch_groups import Group, SearchObservation, noise
from tuner.search.regions import chance_of_failure, ruled_out
from tuner.search.scoring import candidates, gradient
from tuner.search.throughput import Pace


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


SPACE = Space(
    (
        KnobAxis("threads", (8, 1, 2, 4), "threads"),
        KnobAxis("workers", (0, 1, 2, 4), "workers"),
        KnobAxis("worker_threads", (1, 2), "worker_threads"),
        KnobAxis("allocator", ("glibc", "jemalloc")),
    ),
    ranks_per_host=2,
    cores=8,
)
GRID = Grid(SPACE)

keys = st.tuples(*(st.sampled_from(knob.values) for knob in SPACE.knobs))


def failed(*settings: Key) -> dict[Key, Group]:
    return {key: Group(key, failures=1, launches=1) for key in settings}


@pytest.mark.parametrize(
    ("key", "octaves"),
    [
        ((4, 0, 1, "glibc"), 0.0),
        ((2, 2, 1, "glibc"), 0.0),
        ((8, 4, 2, "glibc"), 2.0),
        ((1, 0, 2, "glibc"), -2.0),
    ],
)
def test_demand_counts_threads_and_workers(key: Key, octaves: float) -> None:
    assert GRID.demand(GRID.rows([key]))[0] == octaves


@given(keys, keys)
def test_a_shortage_bars_more_of_everything_any_other_failure_itself_alone(
    bad: Key, key: Key
) -> None:
    groups, row = failed(bad), GRID.rows([key])
    assert ruled_out(GRID, row, groups)[0] == (key == bad)
    groups[bad].is_bound = True
    more = all(k >= b for k, b in zip(key[:3], bad[:3], strict=True)) and key[3] == bad[3]  # type: ignore[operator]
    assert ruled_out(GRID, row, groups)[0] == more
    groups[bad].finished.append(1.0)  # it ran once
    assert not ruled_out(GRID, row, groups).any()


@given(st.lists(keys, min_size=1, max_size=5), keys)
def test_chances_are_chances(bad: list[Key], good: Key) -> None:
    groups = failed(*bad)
    groups[good] = Group(good, finished=[1.0], launches=1)
    assert GRID.all is not None
    chance = chance_of_failure(GRID, GRID.all, groups)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert chance_of_failure(GRID, GRID.rows([good]), groups)[0] == 0


def test_two_refused_odd_numbers_of_ranks_speak_against_the_other_odd_ones() -> None:
    space = Space((KnobAxis("ranks", tuple(range(1, 17)), "ranks"), KnobAxis("x", (1, 2))), 16, 16)
    grid, groups = Grid(space), failed((3, 1), (7, 1))
    groups[16, 1] = Group((16, 1), finished=[1.0], launches=1)
    chances = chance_of_failure(grid, grid.rows([(ranks, 2) for ranks in range(1, 17)]), groups)
    of_odd_ones, of_others = chances[2::2], [chances[0], *chances[1::2]]
    assert min(of_odd_ones) > 0.8 and max(of_others) < 0.5
