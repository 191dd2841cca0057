"""How results are put into words."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
