"""What pairs in turn prove by their ranks alone."""

from __future__ import annotations

import math

import pytest

from tuner.stats.ranks import LOOKS, judge_by_ranks


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
