"""A running job that changes is found out; one that does not is left alone."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_windows import Told, setting
from tuner.model import Exclusion, ExclusionKind, Stopped
from tuner.study.job_drift import EVERY, MOST_JOBS, drift, due, spread
from tuner.study.policy import SearchThenConfirm, Step
from tuner.study.running import running

OTHERS = [setting(t, w) for t in (1, 2, 3, 4) for w in (1, 2, 3)]
BEST = OTHERS[0]


def job(*times_s: float) -> Told:
    """The best, then each of the others once, then the best again and again."""
    told = Told().starts(BEST, 2.0)
    for number, other in enumerate(OTHERS[1:4]):
        told.window(other, 3.0 + number)
    for time_s in times_s:
        told.window(BEST, time_s)
    return told


def test_one_odd_window_is_measured_again_and_proves_nothing() -> None:
    told = job(2.6)
    found = drift(told.plan)
    assert found is not None
    assert not found.proven
    step = SearchThenConfirm().next(told.plan)
    assert isinstance(step, Step)
    assert (step.setting, step.purpose) == (BEST, "repeat")
    told.window(BEST, 2.02)
    assert drift(told.plan) is None


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_two_in_a_row_prove_it_and_what_came_since_is_set_aside(factor: float) -> None:
    found = drift(job(2.02, 2.0 * factor, 2.1 * factor).plan)
    assert found is not None
    assert found.proven
    assert found.numbers == (6, 7)
    assert found.ratio == pytest.approx(1.02 * factor, rel=0.02)
    assert ("longer" in found.exclusion.text) == (factor > 1)


def test_windows_between_are_set_aside_too_and_the_job_is_over() -> None:
    told = job(2.0 * 1.3, 2.0 * 1.3)
    found = drift(told.plan)
    assert found is not None
    assert found.numbers == (2, 3, 4, 5, 6)
    told.exclude(found.numbers, found.exclusion)
    assert running(told.plan) is None
    assert drift(told.plan) is None


def test_a_window_that_was_stopped_counts_by_where_it_was_going() -> None:
    told = job(2.0 * 1.5)
    told.window(BEST, Stopped(1.0, 3.2, 3.0, 3.4, 0.05, "drift"))
    found = drift(told.plan)
    assert found is not None
    assert found.proven


def test_to_the_other_side_is_no_drift() -> None:
    found = drift(job(2.0 * 1.4, 2.0 * 0.7).plan)
    assert found is not None
    assert not found.proven


@given(st.lists(st.floats(1.91, 2.09), min_size=1, max_size=8))
def test_less_than_five_per_cent_is_none(times_s: list[float]) -> None:
    assert drift(job(*times_s).plan) is None


def test_two_windows_that_are_far_apart_say_nothing_of_the_noise() -> None:
    told = job(2.02)
    usual = spread(told.plan)
    for time_s in (4.0, 8.0):
        told.window(OTHERS[-1], time_s)
    assert spread(told.plan) == usual


def test_what_differs_by_chance_is_rarely_taken_for_drift() -> None:
    proven = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = job(*(2.0 * math.exp(0.05 * rng.gauss(0, 1)) for _ in range(6)))
        for length in range(5, 11):
            found = drift(Told(records=told.records[:length]).plan)
            proven += found is not None and found.proven
    assert proven <= 2


def test_after_some_jobs_it_is_just_so() -> None:
    told = Told()
    for _ in range(MOST_JOBS + 1):
        begun = len(told.records)
        told.starts(BEST, 2.0).window(BEST, 3.0).window(BEST, 3.0)
        found = drift(told.plan)
        if begun // 3 < MOST_JOBS:
            assert found is not None
            told.exclude(found.numbers, Exclusion(ExclusionKind.JOB_DRIFTED, "again"))
        else:
            assert found is None


def test_the_best_is_repeated_in_every_few_windows_of_a_job() -> None:
    told = Told().starts(OTHERS[5], 4.0)
    for number, other in enumerate(OTHERS[6:]):
        before = running(told.plan)
        assert before is not None
        wanted = due(told.plan, before, stays=True)
        assert (wanted is not None) == (number >= EVERY - 1)
        assert due(told.plan, before, stays=False) is None
        told.window(other, 3.0 + number)
    now = running(told.plan)
    assert now is not None
    assert due(told.plan, now, stays=True) == OTHERS[6]
    told.window(OTHERS[7], 4.0)
    now = running(told.plan)
    assert now is not None
    assert due(told.plan, now, stays=True) is None
