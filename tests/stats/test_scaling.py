"""Speed-ups with their intervals, and what Amdahl's law allows."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.scaling import least_time, speed_up

times = st.lists(st.floats(0.5, 50.0), min_size=1, max_size=9)


def test_the_interval_holds_the_ratio_and_is_narrow_after_six_rounds() -> None:
    before, after = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95], [5.0, 5.05, 5.0, 4.95, 5.0, 5.0]
    few, many = speed_up(before[:2], after[:2]), speed_up(before, after)
    for found in (few, many):
        assert found.low < 2.0 < found.high
    assert many.high - many.low < 0.1 < few.high - few.low


def test_runs_that_disagree_prove_nothing() -> None:
    found = speed_up([10.0, 20.0], [5.0, 5.0])
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.ratio == pytest.approx(3.0)


@given(times, times, st.floats(0.1, 10.0))
def test_a_speed_up_is_within_its_interval_and_of_ratios_only(
    before: list[float], after: list[float], factor: float
) -> None:
    found = speed_up(before, after)
    assert found.low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= found.high * (1 + 1e-9)
    slower = speed_up([factor * each for each in before], [factor * each for each in after])
    assert slower == pytest.approx(found)
    assert found.times(factor).ratio == pytest.approx(factor * found.ratio)


@given(st.floats(0.0, 1.0), st.integers(1, 64), st.integers(2, 16), st.integers(2, 16))
def test_no_job_that_follows_amdahls_law_beats_its_bound(
    serial: float, first: int, second: int, third: int
) -> None:
    def time_s(ranks: int) -> float:
        return 10.0 * (serial + (1 - serial) / ranks)

    ranks = (first, first * second, first * second * third)
    seen = [(number, [time_s(number)] * 6) for number in ranks[:2]]
    assert least_time(seen, ranks[2]) == pytest.approx(time_s(ranks[2]))


@given(st.lists(times, max_size=4))
def test_the_bound_is_between_all_and_nothing_of_the_work(seen: list[list[float]]) -> None:
    layouts = [(2**place, each) for place, each in enumerate(seen)]
    least = least_time(layouts, 2**5)
    if len(layouts) < 2:
        assert least == 0.0
    else:
        whole = statistics.median(seen[0])
        assert whole / 2**5 <= least * (1 + 1e-9) <= whole * (1 + 1e-6)
