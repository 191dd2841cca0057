"""Very many iterations as few values."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.live.batches import MOST, Batches, Iterations
from tuner.live.windows import relative_error


@given(st.lists(st.floats(1e-6, 1e3), max_size=5 * MOST))
def test_each_value_is_the_mean_of_its_own_iterations(times_s: list[float]) -> None:
    batches = Batches()
    for time_s in times_s:
        batches.add(time_s)
    each = batches.each
    assert batches.seen == len(times_s)
    assert len(batches.means) == len(times_s) // each < MOST
    assert each == 1 or len(times_s) >= MOST * each // 2
    own = [times_s[n : n + each] for n in range(0, len(times_s) - each + 1, each)]
    assert batches.means == pytest.approx([math.fsum(some) / each for some in own])


def test_the_error_of_the_mean_stays() -> None:
    """That of times that go together, which single ones show less of."""
    generator, level, batches = random.Random(1), 0.0, Batches()
    for _ in range(100_000):
        level = 0.9 * level + generator.gauss(0, 0.1)
        batches.add(5 + level)
    true = 0.1 / (1 - 0.9) / math.sqrt(100_000) / 5
    assert relative_error(batches.means) == pytest.approx(true, rel=0.15)


def given_to(times_s: list[float], marks: list[bool]) -> Batches:
    iterations = Iterations()
    for time_s, mark in zip(times_s, marks, strict=True):
        iterations.add(time_s, mark)
    assert iterations.seen == len(times_s)
    return iterations.counted


def test_evaluations_are_not_counted() -> None:
    assert given_to([1.0, 9.0, 1.0], [False, True, False]).means == [1.0, 1.0]
    assert given_to([1.0, 9.0, 9.0], [False, True, True]).means == [1.0, 9.0, 9.0]


def test_nor_are_they_in_a_batch() -> None:
    marks = [n % 10 == 9 for n in range(20 * MOST)]
    found = given_to([9.0 if mark else 1.0 for mark in marks], marks)
    assert found.each > 10
    assert statistics.fmean(found.means) == 1.0
