"""The confirmation's interval, its plan and its error."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.confirm import AT_LEAST, TWO_SIDED, Finding, Next, Pair, interval, judge, plan


def study(rng: random.Random, ratio: float, sd: float, outliers: float = 0.03) -> Finding:
    """One confirmation: log-normal runs, some of them two to three times slower."""

    def run(middle_s: float) -> float:
        slow = rng.uniform(2, 3) if rng.random() < outliers else 1.0
        return middle_s * math.exp(sd * rng.gauss(0, 1)) * slow

    at_least = plan(ratio * math.exp(sd * rng.gauss(0, 1)))
    pairs: list[Pair] = []
    while True:
        verdict = judge(pairs, at_least=at_least)
        if isinstance(verdict, Finding):
            return verdict
        times = {side: run(10.0 if side == "best" else 10.0 * ratio) for side in verdict.order}
        reference_s = min(times["reference"], verdict.reference_limit_s or math.inf)
        pairs.append(Pair(reference_s, times["best"]))


@pytest.mark.parametrize("ratio", [1.0, 1.05, 2.3, 6.0])
def test_the_interval_covers_the_truth(ratio: float) -> None:
    rng = random.Random(1)
    found = [study(rng, ratio, 0.04) for _ in range(400)]
    covered = sum(f.low <= ratio <= f.high for f in found)
    assert covered >= 0.95 * len(found)


@pytest.mark.parametrize("sd", [0.02, 0.1])
def test_the_same_is_hardly_ever_called_faster(sd: float) -> None:
    rng = random.Random(2)
    found = [study(rng, 1.0, sd) for _ in range(400)]
    assert sum(f.claim == "faster" for f in found) <= 0.03 * len(found)


def test_a_clear_gain_is_called_faster() -> None:
    rng = random.Random(3)
    assert all(study(rng, 2.0, 0.05).claim == "faster" for _ in range(50))


@pytest.mark.parametrize("looks", [TWO_SIDED, AT_LEAST])
def test_the_looks_share_the_error(looks: tuple[tuple[int, float], ...]) -> None:
    assert sum(error for _, error in looks) <= 0.05
    factor = 1 if looks is TWO_SIDED else 2
    assert all(interval([0.0] * n, factor * error) is not None for n, error in looks)


def test_the_interval_is_exact() -> None:
    """All sign patterns of distinct sizes are equally likely: count those it misses."""
    sizes = [1.0, 2.3, 3.1, 4.7, 5.9, 7.2, 8.8, 9.4]
    for error in (1 / 32, 0.1):
        missed = 0
        for signs in itertools.product((-1, 1), repeat=len(sizes)):
            result = interval([s * x for s, x in zip(signs, sizes, strict=True)], error)
            assert result is not None
            missed += not result[1] <= 0 <= result[2]
        assert 0 < missed <= error * 2 ** len(sizes)


@given(st.lists(st.floats(-2, 2), min_size=8, max_size=12))
def test_a_smaller_error_is_no_narrower(logs: list[float]) -> None:
    wide, narrow = interval(logs, 0.01), interval(logs, 0.1)
    assert wide is not None
    assert narrow is not None
    assert wide[1] <= narrow[1] <= narrow[0] <= narrow[2] <= wide[2]


@given(st.lists(st.floats(-2, 2), min_size=6, max_size=10), st.floats(-1, 1))
def test_the_interval_moves_with_the_values(logs: list[float], by: float) -> None:
    here, there = interval(logs, 0.05), interval([x + by for x in logs], 0.05)
    assert here is not None
    assert there is not None
    assert there == pytest.approx([x + by for x in here], abs=1e-9)


def test_too_few_values_say_nothing() -> None:
    assert interval([0.1] * 5, 0.05) is None


def test_the_launches_alternate() -> None:
    pairs = [Pair(20.0, 10.0)]
    first, second = judge([]), judge(pairs)
    assert isinstance(first, Next)
    assert isinstance(second, Next)
    assert first.order == ("reference", "best")
    assert second.order == ("best", "reference")
    assert second.reference_limit_s is None


def test_a_far_slower_reference_is_cut() -> None:
    assert plan(2.9) is None
    at_least = plan(8.0)
    assert at_least == 3.0
    verdict = judge([Pair(30.0, 10.0)] * 2, at_least=at_least)
    assert isinstance(verdict, Next)
    assert verdict.reference_limit_s == 30.0
    found = judge([Pair(30.0, 10.0)] * 5, at_least=at_least)
    assert isinstance(found, Finding)
    assert found.at_least
    assert found.claim == "faster"
    assert found.low == pytest.approx(3.0)


def test_a_gain_worth_nothing_ends_at_the_first_look() -> None:
    found = judge([Pair(10.0 + 0.1 * (-1) ** n, 10.0) for n in range(6)])
    assert isinstance(found, Finding)
    assert found.claim == "no significant gain"


def test_what_has_cost_enough_ends_at_the_next_look() -> None:
    pairs = [Pair(9.0 + n, 10.0) for n in range(6)]
    assert isinstance(judge(pairs), Next)
    found = judge(pairs, may_go_on=False)
    assert isinstance(found, Finding)
    assert found.claim == "no significant gain"


def test_a_slower_setting_is_called_so() -> None:
    found = judge([Pair(5.0 + n / 100, 10.0) for n in range(6)])
    assert isinstance(found, Finding)
    assert found.claim == "slower"


def test_a_proven_gain_below_one_percent_is_no_claim() -> None:
    found = judge([Pair(10.05 + n / 1000, 10.0) for n in range(6)])
    assert isinstance(found, Finding)
    assert 1 < found.low < found.high < 1.01
    assert found.claim == "no significant gain"
