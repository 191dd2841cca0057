"""The environment file, as docker reads it, and the arguments of the best setting."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, Choice, Env, Flag, Knob, Route
from tuner.model.errors import UsageError
from tuner.results.exporters.shell import arguments, environment
from tuner.results.study_view import StudyView


def with_value(value: str, route: Route) -> StudyView:
    spec = replace(SPEC, knobs=(Knob("v", Choice((value,)), route),))
    return study({BASELINE: 3.0, setting(v=value): 1.0}, spec)


def as_docker_reads(text: str) -> dict[str, str]:
    """Docker's rules (cli/opts/file.go): comments and blank lines off, no quotes, no expansion."""
    lines = [line.lstrip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    assert all(equals for _, equals, _ in pairs)
    return {name: value for name, _, value in pairs}


def test_every_variable_is_written_and_what_cannot_be_carried_is_said_twice() -> None:
    export = environment(study())
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    assert as_docker_reads(export.text) == variables
    assert export.warnings == (
        "an environment cannot carry iterator_workers=1",
        "an environment cannot carry communicator=naive",
    )
    assert all(f"# not in this file: {warning}\n" in export.text for warning in export.warnings)
    (unset,) = environment(with_value("unset", Env(("T_VALUE",)))).warnings
    assert unset == "an environment file cannot unset T_VALUE"


@pytest.mark.parametrize("value", ["a b", "$(x)", "a\nb", "~", "é", "a;b"])
def test_a_value_that_shell_and_docker_read_differently_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="T_VALUE"):
        environment(with_value(value, Env(("T_VALUE",))))


@given(st.text(max_size=20).filter("unset".__ne__))
def test_whatever_is_written_is_read_back(value: str) -> None:
    words = arguments(with_value(value, Flag("-v"))).text
    assert shlex.split(words) == ["-v", value]
    try:
        text = environment(with_value(value, Env(("T_VALUE",)))).text
    except UsageError:
        return
    assert as_docker_reads(text) == {"T_VALUE": value}


def test_arguments_fill_placeholders_and_say_what_they_lack() -> None:
    export = arguments(study())
    assert shlex.split(export.text) == ["-j", "1", "--communicator", "naive"]
    assert export.warnings == ("arguments cannot carry omp_threads=1",)
    spec = replace(SPEC, command=("x", "-t", "{omp_threads}"))
    assert "arguments cannot carry omp_threads=1" not in arguments(study(spec=spec)).warnings
    assert "an environment cannot carry omp_threads=1" in environment(study(spec=spec)).warnings
    spec = replace(SPEC, command=("x", "{out}", "--u=h?token=***&j={iterator_workers}"))
    export = arguments(study(spec=spec))
    assert export.text.startswith("'--u=h?token=***&j=1'")
    assert "*** stands for a secret, which is not stored" in export.warnings
