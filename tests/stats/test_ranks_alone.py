"""What pairs in turn prove by their ranks alone, and the interval from exact distributions."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.ranks import LOOKS, interval, judge_by_ranks


def test_the_looks_share_an_error_of_five_percent_and_each_can_say_something() -> None:
    assert sum(LOOKS.values()) <= 0.05
    assert all(2 / 2**pairs <= error for pairs, error in LOOKS.items())


@pytest.mark.parametrize(
    ("ratio", "claim"), [(1.5, "faster"), (1.001, "no gain worth having"), (0.9, "slower")]
)
def test_six_pairs_that_agree_are_enough(ratio: float, claim: str) -> None:
    logs = [math.log(ratio) + 0.001 * number for number in range(6)]
    assert judge_by_ranks(logs[:5], 0.02) is None
    finding = judge_by_ranks(logs, 0.02)
    assert finding is not None and (finding.claim, finding.pairs) == (claim, 6)
    assert finding.high is not None and finding.low <= finding.ratio <= finding.high


def test_between_two_looks_nothing_new_is_said() -> None:
    wide = [math.log(1.2) + spread for spread in (-0.15, 0.1, -0.1, 0.15, 0.0, 0.05)]
    assert judge_by_ranks(wide, 0.02) is None
    assert judge_by_ranks([*wide, *wide[:2]], 0.02) is None
    last = judge_by_ranks(wide * 4, 0.02)
    assert last is not None and last.pairs == max(LOOKS)


def test_of_lower_bounds_only_a_lower_end_is_found() -> None:
    finding = judge_by_ranks([math.log(5)] * 6, 0.02, at_least=True)
    assert finding is not None and finding.at_least and finding.claim == "faster"
    assert judge_by_ranks([0.0] * 6, 0.02, at_least=True) is None


def test_the_smallest_errors() -> None:
    """6 pairs all of one sign: 2 of 64."""
    assert interval([0.1] * 6, 2 / 64) is not None
    assert interval([0.1] * 6, 2 / 65) is None
    assert interval([0.1] * 5, 0.05) is None


def test_the_interval_is_exact() -> None:
    """All sign patterns of distinct sizes are equally likely: count those it misses."""
    sizes = [1.0, 2.3, 3.1, 4.7, 5.9, 7.2, 8.8, 9.4]
    for error in (1 / 32, 0.1):
        above = below = 0
        for signs in itertools.product((-1, 1), repeat=len(sizes)):
            result = interval([s * x for s, x in zip(signs, sizes, strict=True)], error)
            assert result is not None
            above += result[1] > 0
            below += result[2] < 0
        assert above == below
        assert 0 < above + below <= error * 2 ** len(sizes)


@given(st.lists(st.floats(-2, 2), min_size=8, max_size=12), st.floats(-1, 1))
def test_a_smaller_error_is_no_narrower_and_all_moves_with_the_values(
    logs: list[float], by: float
) -> None:
    wide, narrow, moved = (
        interval(x, e) for x, e in ((logs, 0.01), (logs, 0.1), ([x + by for x in logs], 0.1))
    )
    assert wide is not None and narrow is not None and moved is not None
    assert wide[1] <= narrow[1] <= narrow[0] <= narrow[2] <= wide[2]
    assert moved == pytest.approx([x + by for x in narrow], abs=1e-9)
