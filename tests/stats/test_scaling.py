from __future__ import annotations

import math

import pytest

from tuner.stats.scaling import SpeedUp, along


def test_along_a_chain_ratios_multiply_and_doubts_add() -> None:
    double, triple = SpeedUp(2.0, 1.8, 2.2), SpeedUp(3.0, 2.9, 3.2)
    assert along([]) == (1, 1, 1) and along([double]) == pytest.approx(double)
    assert along([], [double]) == pytest.approx((1 / 2.0, 1 / 2.2, 1 / 1.8))
    both = along([double, triple])
    assert both.ratio == pytest.approx(6.0)
    assert 1.8 * 2.9 < both.low < 3.0 * 1.8 and 3.0 * 2.2 < both.high < 2.2 * 3.2
    at_least = along([SpeedUp(5.0, 4.0, math.inf)], [double])
    assert at_least.high == math.inf and at_least.low > 0
    assert along([SpeedUp(0.2, 0.0, 0.25)]) == pytest.approx((0.2, 0.0, 0.25))
