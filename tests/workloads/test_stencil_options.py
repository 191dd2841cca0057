"""The flags of the stencil program."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.stencil_options import BENCHMARK_STEPS, JOB_STEPS, StencilOptions, parse
from workloads.trainer_options import WorkloadError


def options(*argv: str, ranks: int = 1) -> StencilOptions:
    return parse("stencil.py", "A stencil.", argv, ranks)


def test_the_defaults_are_the_whole_job() -> None:
    assert options() == StencilOptions(1024, 768, 2, JOB_STEPS, None)


def test_a_benchmark_is_shorter_and_does_the_same_per_step() -> None:
    assert options("--benchmark") == StencilOptions(1024, 768, 2, BENCHMARK_STEPS, None)
    assert options("--benchmark", "--steps", "7").steps == 7


def test_every_flag_arrives() -> None:
    sizes = ("--rows", "5", "--columns", "6", "--sweeps", "3", "--steps", "4")
    assert options(*sizes, "--cprofile", "prof") == StencilOptions(5, 6, 3, 4, Path("prof"))


def test_as_many_rows_as_ranks_do() -> None:
    assert options("--rows", "4", ranks=4).rows == 4


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--rows", "3"], "--rows 3: each of the 4 ranks needs at least one row; use --rows 4"),
        (["--columns", "0"], "--columns: 0 is not 1 or more"),
        (["--steps", "x"], "--steps: invalid integer value: 'x'"),
        (["--epochs", "3"], "unrecognized arguments: --epochs"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_value(argv: list[str], named: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        options(*argv, ranks=4)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
