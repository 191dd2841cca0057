"""The argument part of the best setting."""

from __future__ import annotations

import dataclasses
import shlex

from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Flag, Knob
from tuner.results.exporters.args import export


def test_placeholders_and_options() -> None:
    result = export(study())
    assert shlex.split(result.text) == ["-j", "1", "--communicator", "naive"]
    assert result.warnings == ("arguments cannot carry omp_threads=1: it goes by environment",)


@given(st.text(max_size=20))
def test_one_word_stays_one_word(value: str) -> None:
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Flag("-v")),))
    text = export(study({BASELINE: 3.0, setting(v=value): 1.0}, spec)).text
    assert shlex.split(text) == ["-v", value]


def test_a_secret_that_was_not_stored_is_said_to_be_missing() -> None:
    spec = dataclasses.replace(SPEC, command=("x", "{out}", "--u=h?token=***&j={iterator_workers}"))
    found = export(study(spec=spec))
    assert found.text.startswith("'--u=h?token=***&j=1'")
    assert "*** stands for a secret, which is not stored" in found.warnings
