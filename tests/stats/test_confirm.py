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
from tuner.stats.confirm import (
    AUTO,
    EXACT,
    LEAST_CUT,
    ONE_IS_ENOUGH,
    Evidence,
    Look,
    Next,
    Rule,
    Run,
    SearchTimes,
    Side,
    cut,
)
from tuner.stats.wilcoxon import interval, rank_sum_counts, rank_sum_trimmed

BEST_S = 10.0

Draw = Callable[[Side], float]

times = st.floats(1.0, 100.0)
limits = st.one_of(st.none(), st.floats(2.0, 50.0))
rules = st.sampled_from([AUTO, EXACT])
both = pytest.mark.parametrize("rule", [AUTO, EXACT], ids=["auto", "exact"])


def confirmed(
    draw: Draw,
    limit_s: float | None = None,
    rule: Rule = AUTO,
    seen: float = 1.0,
    before: Sequence[Run] = (),
) -> tuple[list[Run], Finding]:
    """A confirmation to its end; the reference is cut where the plan says so."""
    runs = list(before)
    while True:
        step = Evidence(rule, limit_s, seen).judge(runs)
        if isinstance(step, Finding):
            return runs, step
        elapsed_s, most_s = draw(step.side), math.inf if step.limit_s is None else step.limit_s
        runs.append(Run(step.side, min(elapsed_s, most_s), is_cut=elapsed_s > most_s))


def drawing(rng: random.Random, ratio: float, sd: float) -> Draw:
    """Log-normal runs, one in 20 to 33 of them two to three times slower."""
    outliers = rng.uniform(0.03, 0.05)

    def draw(side: Side) -> float:
        slow = rng.uniform(2, 3) if rng.random() < outliers else 1.0
        middle_s = BEST_S * ratio if side == "reference" else BEST_S
        return middle_s * math.exp(sd * rng.gauss(0, 1)) * slow

    return draw


def study(rng: random.Random, ratio: float, sd: float, rule: Rule) -> Finding:
    """One confirmation, planned from a noisy look at both; the baseline came last in the search."""
    draw = drawing(rng, ratio, sd)
    seen = SearchTimes(draw("best"), draw("reference"), 2.0, 400.0)
    limit_s, seen_ratio = cut(seen, rule), seen.reference_s / seen.best_s
    is_stopped = seen_ratio > ONE_IS_ENOUGH
    last_s = LEAST_CUT * seen.best_s if is_stopped else seen.reference_s
    before = [Run("reference", last_s, is_stopped)] if rule is AUTO else []
    return confirmed(draw, limit_s, rule, seen_ratio, before)[1]


def tabled(table: Sequence[float]) -> Draw:
    """The launches' times in the order in which they are asked for, again from the front."""
    left = itertools.cycle(table)
    return lambda side: next(left)


def runs_of(best: Sequence[float], reference: Sequence[float]) -> list[Run]:
    return [*(Run("best", s) for s in best), *(Run("reference", s) for s in reference)]


# --- the looks -----------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [AUTO.two_sided, EXACT.two_sided, EXACT.at_least])
def test_the_looks_by_ranks_share_an_error_of_five_percent(looks: tuple[Look, ...]) -> None:
    assert list(looks) == sorted(looks, key=lambda look: look.bests)
    by_ranks = [look for look in looks if look.error is not None]
    assert sum(look.error or 0.0 for look in by_ranks) <= 0.05
    for look in by_ranks:
        assert look.error is not None
        if looks is not EXACT.at_least:
            assert interval([0.0] * look.bests, look.error) is not None
            continue
        trimmed = rank_sum_trimmed(look.bests, look.references, look.error)
        assert trimmed is not None
        # How likely the lower end is too high.
        counts = rank_sum_counts(look.bests, look.references)
        assert sum(counts[: trimmed + 1]) / sum(counts) <= look.error * (1 + 1e-12)


def test_the_bound_is_exact() -> None:
    """All orders of the same runs are equally likely: count those that claim more than 1."""
    values = [10.0 + n for n in range(7)]
    wrong = 0
    for chosen in itertools.combinations(values, 4):
        best, reference = list(chosen), [v for v in values if v not in chosen]
        found = Evidence(EXACT, limit_s=50.0).judge(runs_of(best, reference))
        wrong += isinstance(found, Finding) and found.low > 1
    assert wrong == 1


# --- whole confirmations -------------------------------------------------------------------


@both
@pytest.mark.parametrize("sd", [0.03, 0.14])
@pytest.mark.parametrize("ratio", [1.0, 1.1, 2.0, 4.0, 8.0])
def test_what_is_claimed_is_true_and_a_clear_gain_is_claimed(
    ratio: float, sd: float, rule: Rule
) -> None:
    rng = random.Random(1)
    found = [study(rng, ratio, sd, rule) for _ in range(600)]
    covered = sum(f.low <= ratio and (f.high is None or ratio <= f.high) for f in found)
    assert covered >= 0.93 * len(found)
    faster = sum(f.claim == "faster" for f in found)
    if ratio == 1:
        assert faster <= 0.05 * len(found)
    elif ratio >= 2:
        assert faster >= 0.95 * len(found)


def test_two_runs_of_each_side_are_enough_where_the_gain_is_far_above_the_noise() -> None:
    runs, found = confirmed(tabled([15.0, 10.0, 10.1, 15.2]))
    assert [run.side[0] for run in runs] == list("rbbr")
    assert (found.claim, found.best_runs) == ("faster", 2)


def test_an_outlier_costs_a_third_run_and_is_left_out() -> None:
    runs, found = confirmed(tabled([15.0, 10.0, 25.0, 15.2, 15.1, 10.1]))
    assert [run.side[0] for run in runs] == list("rbbrrb")
    assert (found.claim, found.best_runs) == ("faster", 3)
    assert found.ratio == pytest.approx(1.5, rel=0.01)


def test_repeats_that_differ_much_ask_for_more_runs() -> None:
    runs = [Run("reference", 15.0), Run("best", 10.0), Run("best", 10.1), Run("reference", 15.2)]
    assert isinstance(Evidence().judge(runs), Finding)
    repeats = [[0.0, 0.3], [0.0, 0.25]]
    assert isinstance(Evidence(repeats=repeats).judge(runs), Next)


def test_a_baseline_that_ends_before_its_cut_is_launched_in_full_from_then_on() -> None:
    evidence = Evidence(limit_s=18.0)
    runs = [Run("best", 10.0), Run("reference", 16.0)]
    assert evidence.judge(runs) == Next("best", None)
    runs.append(Run("best", 10.1))
    assert evidence.judge(runs) == Next("reference", None)
    found = evidence.judge([*runs, Run("reference", 16.1)])
    assert isinstance(found, Finding) and found.high is not None


@given(st.lists(times, min_size=1, max_size=48), limits, rules)
def test_every_confirmation_ends_has_alternated_and_claims_no_more_than_its_cut(
    table: list[float], limit_s: float | None, rule: Rule
) -> None:
    runs, found = confirmed(tabled(table), limit_s, rule)
    bound = "br" if rule is EXACT else "brrbbr"
    order = bound if limit_s is not None and found.at_least else "rbbr"
    if limit_s is None or found.at_least:
        expected = itertools.islice(itertools.cycle(order), len(runs))
        assert [run.side[0] for run in runs] == list(expected)
    looks = rule.at_least if found.at_least else rule.two_sided
    assert (found.best_runs, found.reference_runs) in [look[:2] for look in looks]
    assert found.low <= found.ratio <= (found.high or math.inf)
    if found.at_least:
        assert limit_s is not None
        best = [run.elapsed_s for run in runs if run.side == "best"]
        assert found.low <= limit_s / min(best) * (1 + 1e-9), "no claim exceeds the cut"


@given(st.lists(times, min_size=1, max_size=48), limits, rules, st.data())
def test_one_that_was_broken_off_goes_on_identically(
    table: list[float], limit_s: float | None, rule: Rule, data: st.DataObject
) -> None:
    runs, found = confirmed(tabled(table), limit_s, rule)
    part = runs[: data.draw(st.integers(0, len(runs) - 1))]
    while isinstance(step := Evidence(rule, limit_s).judge(part), Next):
        assert step.side == runs[len(part)].side
        part = runs[: len(part) + 1]
    assert (part, step) == (runs, found)


@given(st.lists(times, min_size=1, max_size=48), limits, rules, st.data())
def test_launches_that_are_lost_later_are_made_again(
    table: list[float], limit_s: float | None, rule: Rule, data: st.DataObject
) -> None:
    """One may be found to have ended early: its side is behind, and no look is missed for it."""
    runs, _ = confirmed(tabled(table), limit_s, rule)
    part = data.draw(st.lists(st.sampled_from(runs), max_size=len(runs)))
    draw = tabled(table)
    for _ in range(2 * rule.two_sided[-1].bests + 1):
        step = Evidence(rule, limit_s).judge(part)
        if isinstance(step, Finding):
            break
        part.append(Run(step.side, draw(step.side)))
    assert isinstance(step, Finding)
    count = Counter(run.side for run in part)
    assert step.best_runs <= count["best"]
    assert step.reference_runs <= count["reference"]


@given(st.lists(times, min_size=1, max_size=48), rules, st.lists(times, max_size=9))
def test_a_surplus_of_the_best_changes_no_finding(
    table: list[float], rule: Rule, more: list[float]
) -> None:
    runs, found = confirmed(tabled(table), None, rule)
    assert Evidence(rule).judge([*runs, *(Run("best", s) for s in more)]) == found


# --- cuts ----------------------------------------------------------------------------------


@both
@given(times, times, st.floats(0, 20), st.floats(0, 1e4))
def test_a_cut_lies_well_below_what_was_seen(
    rule: Rule, best_s: float, reference_s: float, startup_s: float, budget_s: float
) -> None:
    limit_s = cut(SearchTimes(best_s, reference_s, startup_s, budget_s), rule)
    if reference_s <= rule.cut_above * best_s:
        assert limit_s is None
        return
    assert limit_s is not None
    multiple, most = limit_s / best_s, reference_s / best_s / 1.7
    assert multiple <= most + 1e-9
    assert rule.least_cut - 1e-9 <= multiple <= rule.most_cut + 1e-9 or multiple >= most - 1e-9


def test_exact_cuts_as_high_as_its_first_look_may_cost() -> None:
    """4 of the best, 3 of the reference, their ends: 4 x 12 + 3 x (2 + 40 + 0.5)."""
    assert cut(SearchTimes(10.0, 100.0, 2.0, 175.5), EXACT) == pytest.approx(40.0)
    assert cut(SearchTimes(10.0, 100.0, 2.0), EXACT) == 50.0
    assert cut(SearchTimes(10.0, 100.0, 2.0, 0.0), EXACT) == 30.0


def test_a_cut_is_cheap_and_never_near_what_was_seen() -> None:
    assert cut(SearchTimes(10.0, 100.0, 2.0)) == 15.0
    assert cut(SearchTimes(10.0, 20.5, 2.0)) == pytest.approx(20.5 / 1.7)


@both
def test_only_the_reference_is_cut(rule: Rule) -> None:
    evidence = Evidence(rule, limit_s=30.0)
    assert evidence.judge([]) == Next("best", None)
    assert evidence.judge([Run("best", 10.0)]) == Next("reference", 30.0)
    assert Evidence(rule).judge([]) == Next("reference", None)


@pytest.mark.parametrize(
    ("rule", "seen", "order"), [(AUTO, 5.0, "br"), (AUTO, 2.9, "brr"), (EXACT, 5.0, "brbrbrb")]
)
def test_a_far_slower_reference_is_at_least_so_much_slower(
    rule: Rule, seen: float, order: str
) -> None:
    draw: Draw = lambda side: 10.0 if side == "best" else 99.0  # noqa: E731
    runs, found = confirmed(draw, 30.0, rule, seen)
    assert "".join(run.side[0] for run in runs) == order
    assert (found.claim, found.high) == ("faster", None)
    assert found.low == pytest.approx(3.0)


def test_the_last_launch_of_the_search_is_the_first_of_the_confirmation() -> None:
    far = Run("reference", 15.0, is_cut=True)
    assert isinstance(
        Evidence(limit_s=15.0, seen_ratio=4.0).judge([far, Run("best", 10.0)]), Finding
    )
    runs, found = confirmed(tabled([10.0, 10.1, 15.2]), before=[Run("reference", 15.0)])
    assert [run.side[0] for run in runs] == list("rbbr")
    assert (found.claim, found.best_runs) == ("faster", 2)


def test_an_outlier_of_the_best_makes_no_claim_but_costs_another_look() -> None:
    runs, found = confirmed(tabled([25.0, 99.0, 99.0, 10.0, 10.0, 99.0]), 15.0, seen=5.0)
    assert [run.side[0] for run in runs] == list("brrbbr")
    assert (found.claim, found.best_runs, found.low) == ("faster", 3, 1.5)


# --- verdicts ------------------------------------------------------------------------------


def test_what_has_cost_enough_ends_at_the_next_look_by_ranks() -> None:
    few = runs_of([10.0] * 2, [9.0, 11.0])
    assert isinstance(Evidence(may_go_on=False).judge(few), Next)
    runs = runs_of([10.0] * 6, [9.0 + n for n in range(6)])
    assert isinstance(Evidence().judge(runs), Next)
    found = Evidence(may_go_on=False).judge(runs)
    assert isinstance(found, Finding)
    assert found.claim == "inconclusive"
    passed = [*runs, Run("reference", 10.0)]
    for may_go_on in (True, False):
        assert Evidence(may_go_on=may_go_on).judge(passed) == Next("best", None)


@both
@pytest.mark.parametrize(
    ("reference", "claim"),
    [
        ([9.9, 10.1] * 3, "no gain worth having"),
        ([5.0 + n / 100 for n in range(6)], "slower"),
        ([10.05 + n / 1000 for n in range(6)], "no gain worth having"),  # proven, but below 1 %
        ([20.0 + n / 100 for n in range(6)], "faster"),
    ],
)
def test_what_is_clear_ends_with_six_pairs_at_most(
    reference: list[float], claim: str, rule: Rule
) -> None:
    found = Evidence(rule).judge(runs_of([10.0] * 6, reference))
    assert isinstance(found, Finding) and found.high is not None
    assert found.claim == claim
    assert found.low <= found.ratio <= found.high


def test_a_wide_interval_around_no_gain_is_inconclusive_and_says_what_would_tell() -> None:
    found = Evidence(may_go_on=False).judge(runs_of([10.0] * 6, [9.0, 11.0, 9.4, 10.5, 10.2, 9.8]))
    assert isinstance(found, Finding)
    assert found.claim == "inconclusive"
    few = Evidence(may_go_on=False).judge(runs_of([10.0] * 6, [10.0, 10.6, 10.4, 9.95, 10.5, 10.6]))
    assert isinstance(few, Finding) and few.pairs_missing is not None
    assert 1 <= few.pairs_missing <= 18


def test_exact_narrows_what_auto_takes_as_it_is() -> None:
    best, reference = [10.0] * 16, [11.0, 20.0] * 8
    for pairs in (6, 10):
        runs = runs_of(best[:pairs], reference[:pairs])
        assert isinstance(Evidence(EXACT).judge(runs), Next)
        assert isinstance(Evidence(to_the_end=True).judge(runs), Next)
    found = Evidence(EXACT).judge(runs_of(best, reference))
    assert isinstance(found, Finding)
    assert found.high is not None
    assert found.claim == "faster"
    assert found.high - found.low > 0.1 * found.ratio
