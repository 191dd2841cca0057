"""How results are put into words, and times and shares as a user writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC, setting
from tuner.knobs import knob, setting_text
from tuner.model import BASELINE, Effect, Setting, Value, Verdict, wording


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (-1, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (700, "11 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(value_s: float, text: str) -> None:
    assert wording.duration(value_s) == text


def test_settings_follow_the_order_of_the_knobs() -> None:
    chosen = setting(communicator="naive", iterator_workers=2, omp_threads=1)
    said = setting_text.assigned(chosen, SPEC.knobs)
    assert said == "omp_threads=1 iterator_workers=2 communicator=naive"
    assert setting_text.assigned(BASELINE, SPEC.knobs) == "defaults"


@pytest.mark.parametrize(
    ("observed", "verdict", "text"),
    [
        (2, Verdict.CAPPED, "omp_threads=8 (came to 2)"),
        (1, Verdict.OVERRIDDEN, "omp_threads=8 (came to 1)"),
        (None, Verdict.OVERRIDDEN, "omp_threads=8"),
        (3, Verdict.NOT_OBSERVABLE, "omp_threads=8"),
        (8, Verdict.HONOURED, "omp_threads=8"),
    ],
)
def test_what_a_value_came_to(observed: int | None, verdict: Verdict, text: str) -> None:
    effects = (Effect("omp_threads", 8, observed, verdict),)
    assert setting_text.assigned(setting(omp_threads=8), SPEC.knobs, effects) == text


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"batch_size": 64}, "batch_size=64 (changes numerics)"),
        ({"batch_size": 32}, "batch_size=32"),
        ({"fp16_gradients": "on", "j": 1}, "fp16_gradients=on (changes numerics) j=1"),
        ({"fp16_gradients": "off"}, "fp16_gradients=off"),
    ],
)
def test_a_value_that_changes_the_numerics_is_marked(chosen: dict[str, Value], text: str) -> None:
    row = replace(knob("batch_size"), default=32)
    assert setting_text.assigned(Setting.of(chosen), (row,)) == text


# --- what a user writes -------------------------------------------------------------------

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
