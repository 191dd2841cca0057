from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.scaling import SpeedUp, along, speed_up

times = st.lists(st.floats(0.5, 50.0), min_size=1, max_size=9)


def test_the_interval_holds_the_ratio_and_is_narrow_after_six_launches() -> None:
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


def test_along_a_chain_ratios_multiply_and_doubts_add() -> None:
    double, triple = SpeedUp(2.0, 1.8, 2.2), SpeedUp(3.0, 2.9, 3.2)
    assert along([double]) == pytest.approx(double)
    assert along([], [double]) == pytest.approx((1 / 2.0, 1 / 2.2, 1 / 1.8))
    both = along([double, triple])
    assert both.ratio == pytest.approx(6.0)
    assert 1.8 * 2.9 < both.low < 3.0 * 1.8 and 3.0 * 2.2 < both.high < 2.2 * 3.2
    at_least = along([SpeedUp(5.0, 4.0, math.inf)], [double])
    assert at_least.high == math.inf and at_least.low > 0
    assert along([SpeedUp(0.2, 0.0, 0.25)]) == pytest.approx((0.2, 0.0, 0.25))
