"""What pairs of launches side by side prove; `benchmarks/pairs.py` simulates how often."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.pairs import IN_TURN, SIDE_BY_SIDE, judge, student, typical


@pytest.mark.parametrize(
    ("deviations", "freedom", "expected"),
    [(1.959964, 3, 3.182446), (1.959964, 10, 2.228139), (2.575829, 5, 4.032143)],
)
def test_quantiles_are_those_of_the_tables(
    deviations: float, freedom: int, expected: float
) -> None:
    assert student(deviations, freedom) == pytest.approx(expected, rel=0.02)
    assert student(-deviations, freedom) == -student(deviations, freedom)


def test_one_pair_proves_nothing_and_two_show_a_large_gain_with_both_ends() -> None:
    assert judge([math.log(3.4)], 0.02) is None and judge([-3.0], 0.02) is None
    finding = judge([math.log(3.4), math.log(3.45)], 0.02)
    assert finding is not None and finding.claim == "faster" and finding.pairs == 2
    assert finding.high is not None and 2.9 < finding.low < 3.4 < finding.high < 4.0


@pytest.mark.parametrize("scatter", [0.03, 0.3])
def test_equal_settings_are_seldom_told_apart_however_much_pairs_scatter(scatter: float) -> None:
    rng, false = random.Random(0), 0
    for _ in range(200):
        logs: list[float] = []
        finding = None
        while finding is None:
            logs.append(rng.gauss(0, scatter))
            finding = judge(logs, 0.02)
        false += finding.claim in {"faster", "slower"}
    assert false <= 20, "a tenth"


def test_a_large_gain_is_measured_on_until_its_size_is_known() -> None:
    for ratio, apart, most in ((1.5, 1.075, 1.1), (6.0, 1.12, 6.0**0.1)):
        wide = [math.log(ratio / apart), math.log(ratio * apart)]
        assert judge(wide, 0.02) is None
        finding = judge(wide * 4, 0.02)
        assert finding is not None and finding.high is not None
        assert finding.high / finding.low < most**2


def test_what_all_pairs_may_be_off_by_widens_the_interval_and_proves_no_small_gain() -> None:
    logs = [0.3, 0.302, 0.304]
    exact, biased = judge(logs, 0.02), judge(logs, 0.02, bias=0.05)
    assert exact is not None and exact.high is not None
    assert biased is not None and biased.claim == exact.claim == "faster"
    assert (biased.low, biased.high) == pytest.approx(
        (exact.low / 1.0513, exact.high * 1.0513), rel=1e-3
    )
    assert judge(logs, 0.02, bias=0.31) is None


def test_no_gain_is_said_from_five_pairs_on_and_a_loss_as_soon_as_a_gain() -> None:
    equal = [0.005, -0.005, 0.002, -0.002]
    assert judge(equal, 0.02) is None
    finding = judge([*equal, 0.0], 0.02)
    assert finding is not None and finding.claim == "no gain worth having"
    slower = judge([-0.5, -0.51], 0.02)
    assert slower is not None and slower.claim == "slower"


def test_that_there_is_no_gain_is_not_said_beside_an_interval_that_allows_a_large_one() -> None:
    logs = [-2.2, 0.1, -1.9, -0.1, -1.5, -0.6]
    finding = judge(logs, 0.02, is_last=True)
    assert finding is not None and finding.high is not None
    assert finding.claim == "inconclusive" and finding.high > 1.1


def test_a_launch_that_took_twice_as_long_does_not_hide_a_gain() -> None:
    log_ratios = [0.09, 0.1, 0.09 + math.log(2), 0.1, 0.11]
    finding = judge(log_ratios, 0.02)
    assert finding is not None and finding.claim == "faster"
    assert finding.ratio == pytest.approx(1.105, abs=0.01) and finding.pairs == 5


def test_where_all_launches_scatter_by_much_none_is_an_outlier() -> None:
    log_ratios = [0.0, 0.4, -0.4, 0.8, -0.8]
    assert typical(log_ratios) == log_ratios


def test_pairs_of_two_kinds_have_no_outliers_and_prove_nothing() -> None:
    # As if the side that begins were the faster one, whichever that is.
    log_ratios = [0.41, -0.4, 0.4, -0.41, 0.4]
    finding = judge(log_ratios, 0.02, is_last=True)
    assert finding is not None and finding.claim == "inconclusive"


many_log_ratios = st.lists(st.floats(-3, 3), max_size=SIDE_BY_SIDE.most_pairs)


@given(many_log_ratios, st.floats(0.001, 0.2))
def test_whatever_the_pairs_the_last_look_ends_it_and_the_interval_holds_the_ratio(
    log_ratios: list[float], precision: float
) -> None:
    finding = judge(log_ratios, precision)
    if finding is None:
        assert len(log_ratios) < SIDE_BY_SIDE.most_pairs
        return
    assert finding.high is not None and finding.low <= finding.ratio <= finding.high
    assert finding.pairs == len(log_ratios)
    if finding.claim == "faster":
        assert finding.low > 1
    if finding.claim == "slower":
        assert finding.high < 1


@given(many_log_ratios)
def test_swapped_sides_mirror_the_interval(log_ratios: list[float]) -> None:
    finding, mirrored = (judge([sign * log for log in log_ratios], 0.02) for sign in (1, -1))
    if finding is None or mirrored is None:
        return
    assert finding.high is not None and mirrored.high is not None
    assert mirrored.ratio * finding.ratio == pytest.approx(1)
    assert mirrored.low * finding.high == pytest.approx(1)
    assert mirrored.high * finding.low == pytest.approx(1)


def test_in_turn_three_pairs_have_to_agree_and_a_small_gain_takes_more() -> None:
    gain = [math.log(1.5)] * 3
    assert judge(gain[:2], 0.02, IN_TURN) is None
    finding = judge(gain, 0.02, IN_TURN)
    assert finding is not None and finding.claim == "faster" and not finding.is_side_by_side
    small = [math.log(1.1)] * 4
    assert judge(small, 0.02) is not None and judge(small, 0.02, IN_TURN) is None


def test_of_lower_bounds_only_a_lower_end_is_found() -> None:
    finding = judge([math.log(5), math.log(5.2)], 0.02, at_least=True)
    assert finding is not None and finding.claim == "faster"
    assert finding.at_least and 3.5 < finding.low < 5
    equal = [0.0] * (SIDE_BY_SIDE.most_pairs - 1)
    assert judge(equal, 0.02, at_least=True) is None
    last = judge([*equal, 0.0], 0.02, at_least=True)
    assert last is not None and last.claim == "inconclusive"
