"""The grid: rows and settings, demand; and what lies beyond a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs.conditions import KnobAxis
from tuner.search.grid import Grid, Key, Space
from tuner.search.launch_groups import Group
from tuner.search.regions import chance_of_failure, ruled_out

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
