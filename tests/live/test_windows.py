"""When a window is steady, how good its pace is, and when it may end."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.live.windows import (
    LEAST,
    LEAST_S,
    estimate,
    is_long_enough,
    needed_error,
    relative_error,
    truncation,
)

TIMES = st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=60)


@given(TIMES)
def test_at_least_one_and_at_most_half_are_thrown_away(times_s: list[float]) -> None:
    discarded = truncation(times_s)
    assert discarded == 1 if len(times_s) < 4 else 1 <= discarded <= len(times_s) // 2


@given(TIMES)
def test_the_rule_is_the_least_marginal_error(times_s: list[float]) -> None:
    def error(discarded: int) -> float:
        rest = times_s[discarded:]
        return statistics.pvariance(rest) / len(rest)

    if len(times_s) >= 2:
        least = min(error(d) for d in range(1, len(times_s) // 2 + 1))
        scale = max(times_s) ** 2
        assert error(truncation(times_s)) <= least + 1e-9 * scale


@given(TIMES, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(times_s: list[float], factor: float) -> None:
    scaled = [factor * time_s for time_s in times_s]
    assert relative_error(scaled) == pytest.approx(relative_error(times_s), rel=1e-6, abs=1e-12)


def test_a_slow_begin_is_thrown_away() -> None:
    found = estimate([3.0, 2.0, 1.5, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0])
    assert found.discarded == 3
    assert found.pace_s == pytest.approx(1.0)


def test_so_is_one_that_was_too_quick() -> None:
    """Batches that a loader had ready from before."""
    assert estimate([0.1, 0.1, 0.1, 1.0, 1.1, 0.9, 1.0, 1.0]).discarded == 3


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


def test_of_few_it_is_taken_as_greater() -> None:
    times_s = [1.0, 1.1, 0.9, 1.0, 1.05]
    usual = statistics.stdev(times_s) / math.sqrt(5) / statistics.fmean(times_s)
    assert relative_error(times_s) >= math.sqrt(2) * usual * 0.999
    assert relative_error(times_s * 40) < 1.1 * usual / math.sqrt(40)


def test_a_window_ends_once_it_is_good_enough() -> None:
    quiet = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
    assert is_long_enough(estimate(quiet), 0.02, most=100)
    assert not is_long_enough(estimate(quiet), 0.0002, most=100)
    assert is_long_enough(estimate(quiet), 0.0002, most=5)
    assert not is_long_enough(estimate(quiet[:LEAST]), 0.02, most=100)


def test_a_window_holds_two_periods_of_a_loader() -> None:
    bursts = [0.06] * 8
    assert is_long_enough(estimate(bursts), 0.02, most=100)
    assert not is_long_enough(estimate(bursts), 0.02, most=100, period=8)
    assert is_long_enough(estimate([*bursts, *bursts, 0.06]), 0.02, most=100, period=8)


def test_but_not_within_a_slice_of_the_scheduler() -> None:
    short_s = LEAST_S / 20
    assert not is_long_enough(estimate([short_s] * 15), 0.02, most=100)
    assert is_long_enough(estimate([short_s] * 25), 0.02, most=100)


def test_what_is_far_behind_is_measured_roughly() -> None:
    assert needed_error(0.02, None) == needed_error(0.02, 0.9) == needed_error(0.02, 1.05) == 0.04
    assert needed_error(0.02, 2.0) == pytest.approx(0.25 * math.log(2))


def test_batches_stand_for_all_their_iterations() -> None:
    found = estimate([2e-5] * 800, each=16)
    assert (found.discarded, found.iterations) == (16, 799 * 16)
    assert found.took_s == pytest.approx(799 * 16 * 2e-5)
    assert found.pace_s == pytest.approx(2e-5)
    assert not is_long_enough(estimate([2e-5] * 700, each=16), 0.02, most=10**6)  # 0.22 s
    assert is_long_enough(found, 0.02, most=10**6)
    assert is_long_enough(found, 0.0, most=799 * 16)
    assert not is_long_enough(found, 0.02, most=10**6, period=500 * 16)
