from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs import space
from tuner.knobs.conditions import active
from tuner.model import BASELINE, Choice, Env, Knob, Setting, When


def knob(name: str, size: int, when: When = ()) -> Knob:
    return Knob(name, Choice(tuple(range(size))), Env((name.upper(),)), when=when)


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


def test_what_does_not_exist_is_not_branched_over() -> None:
    # By all combinations of the parents it would take 2**60 steps.
    chain = [knob("k0", 2)] + [knob(f"k{n}", 2, ((f"k{n - 1}", (1,)),)) for n in range(1, 60)]
    assert space.size(chain) == 61
