"""Whether a program's log counts what its ranks count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.live.jobs import miscounted
from tuner.model import Finished, Outcome, Progress


def said(logged: Sequence[int], seen: int, hook: str = "torch") -> str:
    log = tuple(Progress(iteration, float(iteration)) for iteration in logged)
    return miscounted(Outcome(Finished(9.0, logged[-1]), 9.0, 0, log), seen, hook)


@pytest.mark.parametrize(
    ("logged", "seen", "agree"),
    [
        (range(10, 81, 10), 80, True),
        (range(10, 81, 10), 20, False),  # accumulated over four batches
        (range(10, 81, 10), 160, False),  # an optimizer that steps twice
        ((80,), 160, False),
        ((80,), 20, False),
        ((80,), 159, True),  # those behind the last entry
        (range(10, 81, 10), 89, True),
        (range(10, 81, 10), 90, False),
        (range(100, 1001, 100), 901, True),
        (range(100, 1001, 100), 899, False),
        (range(4), 5, True),
        (range(4), 1, True),
        ((2,), 1000, False),  # it counts epochs
    ],
)
def test_both_count_alike(logged: Sequence[int], seen: int, agree: bool) -> None:
    assert (said(logged, seen) == "") is agree


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 10_000))
def test_a_program_that_logs_every_so_often_may_end_anywhere(
    interval: int, entries: int, more: int
) -> None:
    logged = range(interval, interval * entries + 1, interval)
    assert said(logged, interval * entries + more % interval) == ""
