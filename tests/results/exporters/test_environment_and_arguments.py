"""The environment file, as docker reads it, and the arguments of the best setting."""

from __future__ import annotations

import dataclasses
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Env, Flag, Knob
from tuner.model.errors import UsageError
from tuner.results.exporters.shell import arguments, environment
from tuner.results.study_view import StudyView


def with_value(value: str) -> StudyView:
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Env(("T_VALUE",))),))
    return study({BASELINE: 3.0, setting(v=value): 1.0}, spec)


def as_docker_reads(text: str) -> dict[str, str]:
    """Docker's rules (cli/opts/file.go): comments and blank lines off, no quotes, no expansion."""
    lines = [line.lstrip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    assert all(equals for _, equals, _ in pairs)
    return {name: value for name, _, value in pairs}


def test_every_variable_of_a_knob_is_written() -> None:
    assert as_docker_reads(environment(study()).text) == {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def test_what_an_environment_cannot_carry_is_said_twice() -> None:
    result = environment(study())
    assert result.warnings == (
        "an environment cannot carry iterator_workers=1",
        "an environment cannot carry communicator=naive",
    )
    assert all(f"# not in this file: {warning}\n" in result.text for warning in result.warnings)


def test_unsetting_is_said() -> None:
    assert environment(with_value("unset")).warnings == (
        "an environment file cannot unset T_VALUE",
    )


@pytest.mark.parametrize("value", ["a b", "'a'", "$(x)", "a\nb", "~", "#", "é", "a\\b", "*", "a;b"])
def test_a_value_that_shell_and_docker_read_differently_is_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        environment(with_value(value))
    assert "T_VALUE" in caught.value.message
    assert "--format sh" in caught.value.hint


@given(st.text(max_size=20))
def test_whatever_is_written_is_read_back(value: str) -> None:
    if value == "unset":
        return
    try:
        text = environment(with_value(value)).text
    except UsageError:
        return
    assert as_docker_reads(text) == {"T_VALUE": value}


def test_placeholders_and_options() -> None:
    result = arguments(study())
    assert shlex.split(result.text) == ["-j", "1", "--communicator", "naive"]
    assert result.warnings == ("arguments cannot carry omp_threads=1: it goes by environment",)


@given(st.text(max_size=20))
def test_one_word_stays_one_word(value: str) -> None:
    spec = dataclasses.replace(SPEC, knobs=(Knob("v", Choice((value,)), Flag("-v")),))
    text = arguments(study({BASELINE: 3.0, setting(v=value): 1.0}, spec)).text
    assert shlex.split(text) == ["-v", value]


def test_a_secret_that_was_not_stored_is_said_to_be_missing() -> None:
    spec = dataclasses.replace(SPEC, command=("x", "{out}", "--u=h?token=***&j={iterator_workers}"))
    found = arguments(study(spec=spec))
    assert found.text.startswith("'--u=h?token=***&j=1'")
    assert "*** stands for a secret, which is not stored" in found.warnings
