"""The confirmation's intervals, its looks and its error."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model import Finding
from tuner.stats.confirm import AT_LEAST, TWO_SIDED, Looks, Next, Run, SearchTimes, Side, cut, judge
from tuner.stats.wilcoxon import interval, rank_sum_counts, rank_sum_trimmed

BEST_S = 10.0

Draw = Callable[[Side], float]

times = st.floats(1.0, 100.0)
limits = st.one_of(st.none(), st.floats(2.0, 50.0))


def confirmed(draw: Draw, limit_s: float | None = None) -> tuple[list[Run], Finding]:
    """A confirmation to its end; the reference is cut where the plan says so."""
    runs: list[Run] = []
    while True:
        step = judge(runs, limit_s=limit_s)
        if isinstance(step, Finding):
            return runs, step
        most_s = math.inf if step.limit_s is None else step.limit_s
        runs.append(Run(step.side, min(draw(step.side), most_s)))


def drawing(rng: random.Random, ratio: float, sd: float) -> Draw:
    """Log-normal runs, one in 20 to 33 of them two to three times slower."""
    outliers = rng.uniform(0.03, 0.05)

    def draw(side: Side) -> float:
        slow = rng.uniform(2, 3) if rng.random() < outliers else 1.0
        middle_s = BEST_S * ratio if side == "reference" else BEST_S
        return middle_s * math.exp(sd * rng.gauss(0, 1)) * slow

    return draw


def study(rng: random.Random, ratio: float, sd: float) -> Finding:
    """One confirmation, planned from a noisy look at both."""
    draw = drawing(rng, ratio, sd)
    return confirmed(draw, cut(SearchTimes(draw("best"), draw("reference"), 2.0, 400.0)))[1]


def tabled(table: Sequence[float]) -> Draw:
    """The launches' times in the order in which they are asked for, again from the front."""
    left = itertools.cycle(table)
    return lambda side: next(left)


def runs_of(best: Sequence[float], reference: Sequence[float]) -> list[Run]:
    return [*(Run("best", s) for s in best), *(Run("reference", s) for s in reference)]


# --- the looks -----------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [TWO_SIDED, AT_LEAST])
def test_the_looks_share_an_error_of_five_percent(looks: Looks) -> None:
    assert sum(error for *_, error in looks) <= 0.05
    assert list(looks) == sorted(looks)
    for best, reference, error in looks:
        if looks is TWO_SIDED:
            assert interval([0.0] * best, error) is not None
            continue
        trimmed = rank_sum_trimmed(best, reference, error)
        assert trimmed is not None
        counts = rank_sum_counts(best, reference)  # how likely the lower end is too high
        assert sum(counts[: trimmed + 1]) / sum(counts) <= error * (1 + 1e-12)


def test_the_bound_is_exact() -> None:
    """All orders of the same runs are equally likely: count those that claim more than 1."""
    values = [10.0 + n for n in range(7)]
    wrong = 0
    for chosen in itertools.combinations(values, 4):
        best, reference = list(chosen), [v for v in values if v not in chosen]
        found = judge(runs_of(best, reference), limit_s=50.0)
        wrong += isinstance(found, Finding) and found.low > 1
    assert wrong == 1


# --- whole confirmations -------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.03, 0.14])
@pytest.mark.parametrize("ratio", [1.0, 1.1, 2.0, 4.0, 8.0])
def test_what_is_claimed_is_true_and_a_clear_gain_is_claimed(ratio: float, sd: float) -> None:
    rng = random.Random(1)
    found = [study(rng, ratio, sd) for _ in range(600)]
    covered = sum(f.low <= ratio and (f.high is None or ratio <= f.high) for f in found)
    assert covered >= 0.95 * len(found)
    faster = sum(f.claim == "faster" for f in found)
    if ratio == 1:
        assert faster <= 0.05 * len(found)
    elif ratio >= 2:
        assert faster >= 0.95 * len(found)


@given(st.lists(times, min_size=1, max_size=48), limits)
def test_every_confirmation_ends_has_alternated_and_claims_no_more_than_its_cut(
    table: list[float], limit_s: float | None
) -> None:
    runs, found = confirmed(tabled(table), limit_s)
    looks, order = (AT_LEAST, "br") if limit_s else (TWO_SIDED, "rbbr")
    expected = itertools.islice(itertools.cycle(order), len(runs))
    assert [run.side[0] for run in runs] == list(expected)
    assert (found.best_runs, found.reference_runs) in [look[:2] for look in looks]
    assert found.low <= found.ratio <= (found.high or math.inf)
    if limit_s is not None:
        best = [run.elapsed_s for run in runs if run.side == "best"]
        assert found.at_least
        assert found.low <= limit_s / min(best) * (1 + 1e-9), "no claim exceeds the cut"


@given(st.lists(times, min_size=1, max_size=48), limits, st.data())
def test_one_that_was_broken_off_goes_on_identically(
    table: list[float], limit_s: float | None, data: st.DataObject
) -> None:
    runs, found = confirmed(tabled(table), limit_s)
    part = runs[: data.draw(st.integers(0, len(runs) - 1))]
    while isinstance(step := judge(part, limit_s=limit_s), Next):
        assert step.side == runs[len(part)].side
        part = runs[: len(part) + 1]
    assert (part, step) == (runs, found)


@given(st.lists(times, min_size=1, max_size=48), limits, st.data())
def test_launches_that_are_lost_later_are_made_again(
    table: list[float], limit_s: float | None, data: st.DataObject
) -> None:
    """One may be found to have ended early: its side is behind, and no look is missed for it."""
    runs, _ = confirmed(tabled(table), limit_s)
    part = data.draw(st.lists(st.sampled_from(runs), max_size=len(runs)))
    most = max(look[0] for look in (AT_LEAST if limit_s else TWO_SIDED))
    draw = tabled(table)
    for _ in range(2 * most + 1):
        step = judge(part, limit_s=limit_s)
        if isinstance(step, Finding):
            break
        part.append(Run(step.side, draw(step.side)))
    assert isinstance(step, Finding)
    count = Counter(run.side for run in part)
    assert step.best_runs <= count["best"]
    assert step.reference_runs <= count["reference"]


@given(st.lists(times, min_size=1, max_size=48), limits, st.lists(times, max_size=9))
def test_a_surplus_changes_no_finding(
    table: list[float], limit_s: float | None, more: list[float]
) -> None:
    runs, found = confirmed(tabled(table), limit_s)
    side: Side
    for side in ("best", "reference"):
        assert judge([*runs, *(Run(side, s) for s in more)], limit_s=limit_s) == found


# --- cuts ----------------------------------------------------------------------------------


@given(times, times, st.floats(0, 20), st.floats(0, 1e4))
def test_a_cut_lies_well_below_what_was_seen(
    best_s: float, reference_s: float, startup_s: float, budget_s: float
) -> None:
    limit_s = cut(SearchTimes(best_s, reference_s, startup_s, budget_s))
    if reference_s <= 3 * best_s:
        assert limit_s is None
        return
    assert limit_s is not None
    multiple = limit_s / best_s
    assert multiple <= reference_s / best_s / 1.7 + 1e-9
    assert 3 - 1e-9 <= multiple <= 5 + 1e-9 or multiple >= reference_s / best_s / 1.7 - 1e-9


def test_the_first_look_costs_what_it_may_cost() -> None:
    """4 of the best, 3 of the reference, the end of each: 4 x 12 + 3 x (2 + 40 + 0.5)."""
    assert cut(SearchTimes(10.0, 100.0, 2.0, 175.5)) == pytest.approx(40.0)
    assert cut(SearchTimes(10.0, 100.0, 2.0)) == 50.0
    assert cut(SearchTimes(10.0, 100.0, 2.0, 0.0)) == 30.0
    assert cut(SearchTimes(10.0, 30.5, 2.0)) == pytest.approx(30.5 / 1.7)


def test_only_the_reference_is_cut() -> None:
    assert judge([], limit_s=30.0) == Next("best", None)
    runs = [Run("best", 10.0), Run("reference", 30.0), Run("best", 12.0)]
    assert judge(runs, limit_s=30.0) == Next("reference", 30.0)
    assert judge(runs) == Next("reference", None)


def test_a_far_slower_reference_is_at_least_so_much_slower() -> None:
    runs, found = confirmed(lambda side: 10.0 if side == "best" else 99.0, 30.0)
    assert len(runs) == 7
    assert found.claim == "faster"
    assert found.high is None
    assert found.low == pytest.approx(3.0)


# --- verdicts ------------------------------------------------------------------------------


def test_what_has_cost_enough_ends_at_the_next_look() -> None:
    runs = runs_of([10.0] * 6, [9.0 + n for n in range(6)])
    assert isinstance(judge(runs), Next)
    found = judge(runs, may_go_on=False)
    assert isinstance(found, Finding)
    assert found.claim == "no significant gain"
    passed = [*runs, Run("reference", 10.0)]
    assert judge(passed, may_go_on=False) == judge(passed) == Next("best", None)


@pytest.mark.parametrize(
    ("reference", "claim"),
    [
        ([9.9, 10.1] * 3, "no significant gain"),
        ([5.0 + n / 100 for n in range(6)], "slower"),
        ([10.05 + n / 1000 for n in range(6)], "no significant gain"),  # proven, but below 1 %
        ([20.0 + n / 100 for n in range(6)], "faster"),
    ],
)
def test_what_is_clear_ends_at_the_first_look(reference: list[float], claim: str) -> None:
    found = judge(runs_of([10.0] * 6, reference))
    assert isinstance(found, Finding) and found.high is not None
    assert found.claim == claim
    assert found.low <= found.ratio <= found.high


def test_from_sixteen_pairs_on_a_proven_gain_is_as_precise_as_it_gets() -> None:
    best, reference = [10.0] * 16, [11.0, 20.0] * 8
    for pairs in (6, 10):
        assert isinstance(judge(runs_of(best[:pairs], reference[:pairs])), Next)
    found = judge(runs_of(best, reference))
    assert isinstance(found, Finding)
    assert found.high is not None
    assert found.claim == "faster"
    assert found.high - found.low > 0.1 * found.ratio
