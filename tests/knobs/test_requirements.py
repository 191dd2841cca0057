from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.study_surface import SPEC
from tuner.knobs import requirements, space
from tuner.knobs.requirements import Requirements
from tuner.model import UNSET, Choice, Env, IntRange, Knob, Layout, Setting, Value
from tuner.model.errors import UsageError

GRID = tuple(Knob(name, Choice((1, 2, 4)), Env((name.upper(),))) for name in ("px", "py", "pz"))
KINDS = (
    Knob("mode", Choice(("fast", "slow", "8")), Env(("MODE",))),
    Knob("size", Choice((UNSET, 0, 2)), Env(("SIZE",))),
    Knob("deep", Choice((1, 2)), Env(("DEEP",)), when=(("mode", ("slow",)),)),
)


def settings(knobs: tuple[Knob, ...], *texts: str, ranks: int = 4) -> list[dict[str, Value]]:
    """Every setting that meets the expressions."""
    points = [point.as_dict() for point in space.points(knobs, Requirements(texts, ranks))]
    assert space.size(knobs, Requirements(texts, ranks)) == len(points)
    return points


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("px * py * pz == ranks", lambda x, y, z: x * y * z == 4),
        ("not (px == 1 or py != 2) and pz >= 1", lambda x, y, z: x != 1 and y == 2),
        ("px * px - -py % 3 // 2 > +pz / 2", lambda x, y, z: x * x - -y % 3 // 2 > z / 2),
        ("ranks // px == py", lambda x, y, z: 4 // x == y),
    ],
)
def test_settings_are_those_for_which_python_would_say_so(text: str, python: object) -> None:
    assert callable(python)
    every = itertools.product((1, 2, 4), repeat=3)
    expected = {values for values in every if python(*values)}
    assert {(s["px"], s["py"], s["pz"]) for s in settings(GRID, text)} == expected != set()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("mode == 'fast'", 3),
        ("mode != 'fast'", 3 * 2 + 3),
        ("mode == 8", 3),  # a text of a number is that number
        ("size == 'unset' or size >= 2", 2 * (1 + 2 + 1)),
        ("size >= 0", 2 * 4),  # "unset" has no value to compare
        ("deep == 1", 3 * 2 + 3),  # nothing is said of settings without that knob
    ],
)
def test_texts_what_is_unset_and_knobs_that_are_not_there(text: str, number: int) -> None:
    assert len(settings(KINDS, text)) == number


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["px * py * pz = 4"], "cannot be read"),
        (["px * py"], "px * py cannot stand here, as it is no comparison"),
        (["px * foo(py) == 4"], "foo(py) cannot stand here"),
        (["é == px"], "no knob 'é' in this study"),
        (["px / 0 == 1"], "division by zero"),
        (["px == True"], "True cannot stand here"),
        (["__import__('os') == 4"], "__import__('os') cannot stand here"),
        (["px == 3"], "no setting meets --require 'px == 3': px is 1, 2, 4; ranks is 4"),
        (["(" * 290 + "px"], "cannot be read"),
        (["py == 1"], "the baseline (py=2) does not meet --require 'py == 1'"),
        (["gone == 1"], "gone is not tuned here: no GPU"),
        (["pxx == 1"], "no knob 'pxx'"),
        (["px == 1", "px == 2"], "no setting meets 'px == 1' and 'px == 2'"),
        (["many * more == most"], "more than 300000 combinations"),
    ],
)
def test_what_is_no_requirement_is_refused(texts: list[str], message: str) -> None:
    domains = {knob.name: space.values(knob.domain) for knob in GRID}
    domains |= dict.fromkeys(("many", "more", "most"), tuple(range(1000)))
    with pytest.raises(UsageError) as caught:
        requirements.check(Requirements(tuple(texts), 4), domains, {"py": 2}, {"gone": "no GPU"})
    assert message in caught.value.message
    assert caught.value.hint


def test_a_guess_that_does_not_meet_it_moves_to_the_nearest_setting_that_does() -> None:
    spec = replace(
        SPEC,
        layout=Layout(4),
        knobs=(*GRID, Knob("omp_threads", IntRange(1, 8), Env(("OMP_NUM_THREADS",)))),
        require=("px * py * pz == ranks", "omp_threads * px <= 4", "pz == 1 or px == 4"),
    )
    guess, *_ = space.guesses(spec)
    assert Requirements(spec.require, 4).meets(guess.as_dict())
    assert guess.as_dict()["omp_threads"] == 1
    assert space.guesses(replace(spec, require=())) == (
        Setting.of({"px": 1, "py": 1, "pz": 1, "omp_threads": 1}),
    )
