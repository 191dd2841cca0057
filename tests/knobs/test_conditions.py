"""Which knobs a setting has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs import space
from tuner.knobs.conditions import active, cycle
from tuner.model import BASELINE, Choice, Env, Knob, Setting, When
from tuner.search import Proposal, Search
from tuner.search.grid import Grid, Space
from tuner.search.launch_groups import SearchObservation


def knob(name: str, size: int, when: When = ()) -> Knob:
    return Knob(name, Choice(tuple(range(size))), Env((name.upper(),)), when=when)


BOUND = (
    knob("bind", 3),
    knob("map", 2, (("bind", (1, 2)),)),
    knob("deep", 2, (("map", (1,)), ("elsewhere", (7,)))),
    knob("free", 2),
)


@st.composite
def conditional(draw: st.DrawFn) -> tuple[Knob, ...]:
    """Some knobs, each perhaps on condition of earlier or later ones; in no circle."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    names = [f"k{place}" for place in range(len(sizes))]
    knobs = []
    for place, size in enumerate(sizes):
        parents = draw(st.sets(st.integers(0, place - 1), max_size=2)) if place else set()
        when = tuple(
            (names[p], tuple(draw(st.sets(st.integers(0, 3), min_size=1)))) for p in sorted(parents)
        )
        knobs.append(knob(names[place], size, when))
    return tuple(draw(st.permutations(knobs)))


def settings(knobs: tuple[Knob, ...]) -> set[Setting]:
    """By the definition: every combination, without what does not exist in it."""
    conditions = {each.name: each.when for each in knobs}
    settings_ = set()
    for values in itertools.product(*(space.values(each.domain) for each in knobs)):
        chosen = dict(zip(conditions, values, strict=True))
        names = active(conditions, chosen)
        settings_.add(Setting.of((name, chosen[name]) for name in names))
    return settings_


@given(conditional(), st.data())
def test_each_setting_is_walked_once_and_none_has_what_does_not_exist(
    knobs: tuple[Knob, ...], data: st.DataObject
) -> None:
    walked = list(space.points(knobs))
    assert len(walked) == len(set(walked)) == space.size(knobs)
    assert set(walked) == settings(knobs)
    assert all(space.contains(knobs, BASELINE, each) for each in walked)
    chosen = data.draw(st.dictionaries(st.sampled_from([k.name for k in knobs]), st.integers(0, 3)))
    setting = Setting.of(chosen)
    assert space.contains(knobs, BASELINE, setting) == (setting in settings(knobs))


@given(conditional())
def test_the_grid_has_a_row_for_each_setting(knobs: tuple[Knob, ...]) -> None:
    grid = Grid(Space(tuple(space.axes(knobs)), 1, 4))
    assert grid.all is not None
    names = [each.name for each in knobs]
    found = {space.there(knobs, dict(zip(names, grid.key(row), strict=True))) for row in grid.all}
    assert len(grid.all) == len(found) == space.size(knobs)
    assert found == settings(knobs)
    assert (grid.canonical(grid.all) == grid.all).all()
    full = np.array(list(itertools.product(*map(range, grid.sizes))))
    assert {tuple(row) for row in grid.canonical(full)} == {tuple(r) for r in grid.all}


def test_what_does_not_exist_is_not_branched_over() -> None:
    # By all combinations of the parents it would take 2**60 steps.
    chain = [knob("k0", 2)] + [knob(f"k{n}", 2, ((f"k{n - 1}", (1,)),)) for n in range(1, 60)]
    assert space.size(chain) == 61


def test_a_circle_is_found() -> None:
    assert cycle({"a": (("b", (1,)),), "b": (("c", (1,)),), "c": (("a", (1,)),)}) != ()
    assert cycle({each.name: each.when for each in BOUND}) == ()


@pytest.mark.parametrize("size", [3, 12], ids=["walked whole", "sampled"])
def test_the_search_proposes_no_value_of_a_knob_that_does_not_exist(size: int) -> None:
    more = (knob(f"more{n}", size, (("bind", (2,)),)) for n in range(3))
    tried = Space(tuple(space.axes((*BOUND, *more))), 1, 4)
    grid, search, history = Grid(tried), Search(tried), list[SearchObservation]()
    assert (grid.all is None) == (size == 12)
    while len(history) < 15 and isinstance(step := search.next(history), Proposal):
        elapsed_s = 10.0 + 0.1 * sum(v for v in step.setting or () if isinstance(v, int))
        history.append(
            SearchObservation(
                step.setting, "finished", step.purpose, elapsed_s, elapsed_s=elapsed_s
            )
        )
    rows = grid.rows([seen.setting for seen in history if seen.setting is not None])
    assert len(rows) > 10
    assert (grid.canonical(rows) == rows).all()
