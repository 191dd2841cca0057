"""What pairs of launches side by side prove; `benchmarks/pairs.py` simulates how often."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.pairs import MOST_PAIRS, judge, student


@pytest.mark.parametrize(
    ("deviations", "freedom", "expected"),
    [(1.959964, 3, 3.182446), (1.959964, 10, 2.228139), (2.575829, 5, 4.032143)],
)
def test_quantiles_are_those_of_the_tables(
    deviations: float, freedom: int, expected: float
) -> None:
    assert student(deviations, freedom) == pytest.approx(expected, rel=0.02)
    assert student(-deviations, freedom) == -student(deviations, freedom)


def test_a_large_gain_takes_three_pairs_and_has_both_ends() -> None:
    assert judge([math.log(3.4)] * 2, 0.02) is None
    finding = judge([math.log(3.4), math.log(3.5), math.log(3.3)], 0.02)
    assert finding is not None and finding.claim == "faster" and finding.best_runs == 3
    assert finding.high is not None and 3.0 < finding.low < 3.4 < finding.high < 3.8


def test_no_gain_is_said_from_five_pairs_on_and_a_loss_is_one() -> None:
    equal = [0.005, -0.005, 0.002, -0.002]
    assert judge(equal, 0.02) is None
    finding = judge([*equal, 0.0], 0.02)
    assert finding is not None and finding.claim == "no gain worth having"
    slower = judge([log - 0.1 for log in (*equal, 0.0)], 0.02)
    assert slower is not None and slower.claim == "slower"


@given(st.lists(st.floats(-3, 3), max_size=MOST_PAIRS), st.floats(0.001, 0.2))
def test_whatever_the_pairs_the_last_look_ends_it_and_the_interval_holds_the_ratio(
    log_ratios: list[float], precision: float
) -> None:
    finding = judge(log_ratios, precision)
    if finding is None:
        assert len(log_ratios) < MOST_PAIRS
        return
    assert finding.high is not None and finding.low <= finding.ratio <= finding.high
    assert finding.best_runs == finding.reference_runs == len(log_ratios)
