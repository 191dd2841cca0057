"""How results are put into words, and times and shares as a user writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC
from tuner.knobs import knob, setting_text
from tuner.model import Effect, Setting, Value, Verdict, wording


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(-1, "0 s"), (60, "1 min"), (200, "3 min 20 s"), (700, "11 min"), (7500, "2 h 05 min")],
)
def test_durations(value_s: float, text: str) -> None:
    assert wording.duration(value_s) == text


CAPPED, OVERRIDDEN = Verdict.CAPPED, Verdict.OVERRIDDEN


@pytest.mark.parametrize(
    ("values", "effect", "text"),
    [
        ({}, None, "defaults"),
        # in the order of the study's knobs
        ({"communicator": "flat", "omp_threads": 1}, None, "omp_threads=1 communicator=flat"),
        ({"omp_threads": 8}, (2, CAPPED), "omp_threads=8 (came to 2)"),
        ({"omp_threads": 8}, (1, OVERRIDDEN), "omp_threads=8 (came to 1)"),
        ({"omp_threads": 8}, (3, Verdict.NOT_OBSERVABLE), "omp_threads=8"),
        ({"batch_size": 64}, None, "batch_size=64 (changes numerics)"),
        ({"batch_size": 32}, None, "batch_size=32"),
    ],
)
def test_a_setting_says_what_its_values_came_to_and_change(
    values: dict[str, Value], effect: tuple[int | None, Verdict] | None, text: str
) -> None:
    effects = () if effect is None else (Effect("omp_threads", 8, *effect),)
    knobs = (*SPEC.knobs, replace(knob("batch_size"), default=32))
    assert setting_text.assigned(Setting.of(values), knobs, effects) == text


UNITS = {"": 1, "s": 1, " s": 1, "m": 60, " min": 60, "h": 3600}
NUMBERS = st.floats(0.001, 99.999).map("{:.3f}".format) | st.sampled_from([".5", "5.", "90"])


@given(NUMBERS, st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_what_is_a_time_and_what_is_a_share(number: str, unit: str, space: str) -> None:
    time_s = float(number) * UNITS[unit]
    assert wording.parse_time_s(f"{space}{number}{unit}{space}") == pytest.approx(time_s)
    assert wording.parse_share(f"{space}{number}{space}%") == pytest.approx(float(number) / 100)


@pytest.mark.parametrize("text", ["", "0", "-1", "1d", "1 2", "nan", "inf", "1e3", "1,5", "\u0661"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time above 0"):
        wording.parse_time_s(text)
    for share in (text, f"{text}%"):
        if share != "1,5":
            with pytest.raises(ValueError):
                wording.parse_share(share)
