"""When a window is steady, how good its pace is, and when it may end."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.live.windows import (
    DISTANCE_SHARE,
    LEAST,
    MOST,
    BatchMeans,
    Estimate,
    Iterations,
    estimate,
    is_long_enough,
    relative_error,
)


def enough(window: Estimate, precision: float = 0.01, most: int = 100, **how: Any) -> bool:
    return is_long_enough(window, **{"precision": precision, "ratio": None, "most": most, **how})


TIMES = st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=60)


@given(TIMES)
def test_at_least_one_and_at_most_half_are_thrown_away(times_s: list[float]) -> None:
    discarded = estimate(times_s).discarded
    assert discarded == 1 if len(times_s) < 4 else 1 <= discarded <= len(times_s) // 2


@given(TIMES)
def test_the_rule_is_the_least_marginal_error(times_s: list[float]) -> None:
    def error(discarded: int) -> float:
        rest = times_s[discarded:]
        return statistics.pvariance(rest) / len(rest)

    if len(times_s) >= 2:
        least = min(error(d) for d in range(1, len(times_s) // 2 + 1))
        scale = max(times_s) ** 2
        assert error(estimate(times_s).discarded) <= least + 1e-9 * scale


@given(TIMES, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(times_s: list[float], factor: float) -> None:
    scaled = [factor * time_s for time_s in times_s]
    assert relative_error(scaled) == pytest.approx(relative_error(times_s), rel=1e-6, abs=1e-12)


def test_the_error_of_independent_times_is_the_usual_one() -> None:
    generator = random.Random(1)
    times_s = [1 + generator.gauss(0, 0.1) for _ in range(2000)]
    usual = statistics.stdev(times_s) / math.sqrt(2000) / statistics.fmean(times_s)
    assert relative_error(times_s) == pytest.approx(usual, rel=0.15)


def test_that_of_times_that_go_together_is_greater() -> None:
    generator, level, times_s = random.Random(1), 0.0, []
    for _ in range(2000):
        level = 0.9 * level + generator.gauss(0, 0.1)
        times_s.append(5 + level)
    usual = statistics.stdev(times_s) / math.sqrt(2000) / statistics.fmean(times_s)
    assert relative_error(times_s) > 2.5 * usual


@given(TIMES)
def test_it_is_never_less(times_s: list[float]) -> None:
    n = len(times_s)
    if n >= 2:
        usual = statistics.stdev(times_s) / math.sqrt(n) / statistics.fmean(times_s)
        assert relative_error(times_s) >= usual * (1 - 1e-6) - 1e-12
    else:
        assert relative_error(times_s) == math.inf


def test_a_window_ends_once_it_is_good_enough() -> None:
    quiet = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
    assert enough(estimate(quiet), 0.01, 100)
    assert not enough(estimate(quiet), 0.0001, 100)
    assert enough(estimate(quiet), 0.0001, 5)
    assert not enough(estimate(quiet[:LEAST]), 0.01, 100)


def test_a_window_holds_two_periods_of_a_loader() -> None:
    bursts = [0.06] * 8
    assert enough(estimate(bursts), 0.01, 100)
    assert not enough(estimate(bursts), 0.01, 100, period=8)
    assert enough(estimate([*bursts, *bursts, 0.06]), 0.01, 100, period=8)


def test_what_is_far_behind_is_measured_roughly() -> None:
    noisy = estimate([1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 1.0, 1.2])
    assert 0.04 < noisy.pace_se < DISTANCE_SHARE * math.log(2)
    assert [enough(noisy, ratio=ratio) for ratio in (None, 0.9, 1.05, 2.0)] == [False] * 3 + [True]


def test_batches_stand_for_all_their_iterations() -> None:
    found = estimate([2e-5] * 800, each=16)
    assert (found.discarded, found.iterations) == (16, 799 * 16)
    assert found.took_s == pytest.approx(799 * 16 * 2e-5)
    assert found.pace_s == pytest.approx(2e-5)
    assert not enough(estimate([2e-5] * 700, each=16), 0.01, 10**6)  # 0.22 s
    assert enough(found, 0.01, 10**6)
    assert enough(found, 0, 799 * 16)
    assert not enough(found, 0.01, 10**6, period=500 * 16)


# --- very many iterations as few values -------------------------------------------------


@given(st.lists(st.floats(1e-6, 1e3), max_size=5 * MOST))
def test_each_value_is_the_mean_of_its_own_iterations(times_s: list[float]) -> None:
    batches = BatchMeans()
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
    generator, level, batches = random.Random(1), 0.0, BatchMeans()
    for _ in range(100_000):
        level = 0.9 * level + generator.gauss(0, 0.1)
        batches.add(5 + level)
    true = 0.1 / (1 - 0.9) / math.sqrt(100_000) / 5
    assert relative_error(batches.means) == pytest.approx(true, rel=0.15)


def given_to(times_s: list[float], marks: list[bool]) -> BatchMeans:
    iterations = Iterations()
    for time_s, mark in zip(times_s, marks, strict=True):
        iterations.add(time_s, mark)
    assert iterations.seen == len(times_s)
    return iterations.counted


def test_nor_are_they_in_a_batch() -> None:
    marks = [n % 10 == 9 for n in range(20 * MOST)]
    found = given_to([9.0 if mark else 1.0 for mark in marks], marks)
    assert found.each > 10
    assert statistics.fmean(found.means) == 1.0
