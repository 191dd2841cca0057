"""Windows that cannot be trusted: the job has drifted, or launches contradict them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_windows import Records, setting
from tuner.live import consistency
from tuner.live.consistency import EVERY, Inconsistency
from tuner.live.running import running_job
from tuner.model import BASELINE, Finished, LaunchRecord, Progress, Setting, Stopped
from tuner.study.policy import SearchThenConfirm, Step

OTHERS = [setting(t, w) for t in (1, 2, 3, 4) for w in (1, 2, 3)]
FIRST = OTHERS[0]
TWO, START = setting(2, 1), setting(1, 1)


def drift(told: Records) -> Inconsistency | None:
    return consistency.drift(told.spec, told.history.records, told.history.pooling.canonical)


def due(told: Records, following: Setting | None) -> Setting | None:
    history = told.history
    return consistency.due_repeat(
        history.spec, history.records, history.pooling.canonical, following
    )


def disagreement(told: Records) -> Inconsistency | None:
    return consistency.live_vs_cold(told.history.records, told.history.pooling.canonical)


def notes(told: Records) -> list[str]:
    return consistency.notes(told.history.records, told.history.pooling.canonical)


def job(*times_s: float) -> Records:
    """The best, then each of the others once, then the best again and again."""
    told = Records().starts(FIRST, 2.0)
    for number, other in enumerate(OTHERS[1:4]):
        told.window(other, 3.0 + number)
    for time_s in times_s:
        told.window(FIRST, time_s)
    return told


def test_one_odd_window_is_measured_again_and_proves_nothing() -> None:
    told = job(2.6)
    found = drift(told)
    assert found is not None
    assert not found.proven
    step = SearchThenConfirm().next(told.history)
    assert isinstance(step, Step)
    assert (step.setting, step.purpose) == (FIRST, "repeat")
    told.window(FIRST, 2.02)
    assert drift(told) is None


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_two_in_a_row_prove_it_and_what_came_since_is_excluded(factor: float) -> None:
    found = drift(job(2.02, 2.0 * factor, 2.1 * factor))
    assert found is not None
    assert found.proven
    assert found.numbers == (6, 7)
    assert ("longer" in found.exclusion.text) == (factor > 1)


def test_windows_between_are_excluded_too_and_the_job_is_over() -> None:
    told = job(2.0 * 1.3, 2.0 * 1.3)
    found = drift(told)
    assert found is not None
    assert found.numbers == (2, 3, 4, 5, 6)
    told.exclude(found.numbers, found.exclusion)
    history = told.history
    assert running_job(history.spec, history.records, history.pooling.canonical) is None
    assert drift(told) is None


def test_a_window_that_was_stopped_counts_by_where_it_was_going() -> None:
    told = job(2.0 * 1.5)
    told.window(FIRST, Stopped(1.0, 3.2, 3.0, 3.4, 0.05, "drift"))
    found = drift(told)
    assert found is not None
    assert found.proven


@given(st.lists(st.floats(1.91, 2.09), min_size=1, max_size=8))
def test_less_than_five_per_cent_is_none(times_s: list[float]) -> None:
    assert drift(job(*times_s)) is None


def test_what_differs_by_chance_is_rarely_taken_for_drift() -> None:
    proven = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = job(*(2.0 * math.exp(0.05 * rng.gauss(0, 1)) for _ in range(6)))
        for length in range(5, 11):
            found = drift(Records(records=told.records[:length]))
            proven += found is not None and found.proven
    assert proven <= 2


def test_the_best_is_repeated_in_every_few_windows_of_a_job() -> None:
    told = Records().starts(OTHERS[5], 4.0)
    for number, other in enumerate(OTHERS[6:]):
        assert (due(told, START) is not None) == (number >= EVERY - 1)
        assert due(told, None) is None, "nothing comes next"
        assert due(told, BASELINE) is None, "another job comes next"
        told.window(other, 3.0 + number)
    assert due(told, START) == OTHERS[6]
    assert due(told.window(OTHERS[7], 4.0), START) is None


# --- live against cold --------------------------------------------------------------------


def study(
    *, best: float = 1.0, baseline: float = 1.0, start: float | None = None, sd: float = 0.01
) -> Records:
    """Windows are off by these factors; six launches of the best and the defaults in turn."""
    rng = random.Random(3)

    def about(time_s: float) -> float:
        return time_s * math.exp(sd * rng.gauss(0, 1))

    told = Records().starts(START, about(3.0 * (start or 1.0)))
    for _ in range(3):
        told.window(TWO, about(2.0 * best))
    told.starts(BASELINE, about(6.0 * baseline))
    for _ in range(6):
        told.cold(TWO, about(2.0)).cold(BASELINE, about(6.0))
    if start is not None:
        told.cold(START, about(3.0)).cold(START, about(3.0))
    return told


@pytest.mark.parametrize("factor", [0.75, 1.35])
def test_a_setting_that_is_off_excludes_all_windows(factor: float) -> None:
    told = study(best=factor)
    found = disagreement(told)
    assert found is not None and found.setting == TWO
    assert found.numbers == (1, 2, 3, 4, 5)
    assert ("longer" in found.exclusion.text) == (factor > 1)
    told.exclude(found.numbers, found.exclusion)
    assert disagreement(told) is None
    (note,) = notes(told)
    assert "live measurement was switched off" in note


@pytest.mark.parametrize("factor", [0.7, 1.2, 2.0])
def test_all_off_alike_is_a_bias_of_the_scale(factor: float) -> None:
    told = study(best=factor, baseline=factor)
    assert disagreement(told) is None
    (note,) = notes(told)
    assert "all alike" in note and ("longer" in note) == (factor > 1)


def late(record: LaunchRecord) -> LaunchRecord:
    """The launch with a log of 23 iterations more than its 100."""
    (sample,) = record.outcome.samples
    pace_s = sample.elapsed_s / 123
    log = tuple(Progress(10 * k, pace_s * (23 + 10 * k)) for k in range(1, 11))
    return replace(record, outcome=replace(record.outcome, progress=log))


def test_one_that_is_off_beside_others_that_are_off_alike() -> None:
    found = disagreement(study(best=1.6, baseline=1.2, start=1.2))
    assert found is not None and found.setting == TWO


@pytest.mark.parametrize(("factor", "disagrees"), [(0.85, False), (1.15, False), (1.4, True)])
def test_with_one_setting_to_compare_the_scale_may_be_off(factor: float, disagrees: bool) -> None:
    told = study(best=factor)
    told.records = [r for r in told.records if r.setting != BASELINE]
    assert (disagreement(told) is not None) == disagrees
    (note,) = notes(told)
    assert f"than launches of {TWO}, the one setting" in note


@given(st.floats(0.955, 1.045))
def test_a_difference_below_five_per_cent_is_none(factor: float) -> None:
    assert disagreement(study(best=factor, sd=0.0)) is None


def test_what_differs_by_chance_is_rarely_taken_for_a_disagreement() -> None:
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = study()
        for place, each in enumerate(told.records):
            time_s = 6.0 if each.setting == BASELINE else 2.0
            noisy = Finished(time_s * math.exp(0.05 * rng.gauss(0, 1)), 100)
            told.records[place] = replace(each, outcome=replace(each.outcome, ending=noisy))
        found += disagreement(told) is not None
    assert found <= 12
