"""Windows against launches of their own: who disagrees, and what follows."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import overridden
from tests.study_windows import LIVE, Told, setting
from tuner.model import BASELINE, Finished, LaunchRecord, Progress
from tuner.study.live_vs_cold_check import bias, blamed, disagreements, notes

BEST, START = setting(2, 1), setting(1, 1)


def study(
    *, best: float = 1.0, baseline: float = 1.0, start: float | None = None, sd: float = 0.01
) -> Told:
    """Windows are off by these factors; six launches of the best and the defaults in turn."""
    rng = random.Random(3)

    def about(time_s: float) -> float:
        return time_s * math.exp(sd * rng.gauss(0, 1))

    told = Told().starts(START, about(3.0 * (start or 1.0)))
    for _ in range(3):
        told.window(BEST, about(2.0 * best))
    told.starts(BASELINE, about(6.0 * baseline))
    for _ in range(6):
        told.cold(BEST, about(2.0)).cold(BASELINE, about(6.0))
    if start is not None:
        told.cold(START, about(3.0)).cold(START, about(3.0))
    return told


def test_where_they_agree_nothing_is_found() -> None:
    told = study()
    assert disagreements(told.plan) == ()
    assert blamed(told.records) == frozenset()


@pytest.mark.parametrize("factor", [0.75, 1.35])
def test_a_setting_that_is_off_freezes_what_was_switched(factor: float) -> None:
    told = study(best=factor)
    (found,) = disagreements(told.plan)
    assert found.setting == BEST
    assert found.knobs == {"omp_threads"}
    assert found.numbers == (2, 3, 4)
    assert found.low < factor < found.high
    assert found.live_s / found.cold_s == pytest.approx(factor, rel=0.05)
    told.exclude(found.numbers, found.exclusion)
    assert blamed(told.records) == {"omp_threads"}
    assert disagreements(told.plan) == ()


@pytest.mark.parametrize("factor", [0.7, 1.2, 2.0])
def test_all_off_alike_is_a_bias_of_the_scale(factor: float) -> None:
    told = study(best=factor, baseline=factor)
    assert disagreements(told.plan) == ()
    assert bias(told.plan) == pytest.approx(factor, rel=0.05)
    (note,) = notes(told.plan)
    assert ("longer" in note) == (factor > 1)


def test_a_scale_that_is_right_is_not_spoken_of() -> None:
    assert notes(study().plan) == notes(Told().cold(BEST, 2.0).plan) == []
    assert bias(study().plan) == pytest.approx(1.0, rel=0.05)


def late(record: LaunchRecord) -> LaunchRecord:
    """The launch with a log of 23 iterations more than its 100."""
    (sample,) = record.outcome.samples
    pace_s = sample.elapsed_s / 123
    log = tuple(Progress(10 * k, pace_s * (23 + 10 * k)) for k in range(1, 11))
    return replace(record, outcome=replace(record.outcome, progress=log))


def test_windows_are_scaled_by_what_all_launches_show() -> None:
    """They took 23 iterations more than theirs, not the 3 that were presumed: 19 % in all."""
    told = study(best=103 / 123, baseline=103 / 123)
    assert bias(told.plan) == pytest.approx(103 / 123, rel=0.02)
    told.records = [r if r.outcome.window else late(r) for r in told.records]
    assert bias(told.plan) == pytest.approx(1.0, rel=0.02)
    assert disagreements(told.plan) == ()


def test_one_that_is_off_beside_others_that_are_off_alike() -> None:
    (found,) = disagreements(study(best=1.6, baseline=1.2, start=1.2).plan)
    assert found.setting == BEST
    assert found.low < 1.6 / 1.2 < found.high


def alone(factor: float) -> Told:
    """The best alone has windows and launches."""
    told = study(best=factor)
    told.records = [r for r in told.records if r.setting != BASELINE]
    return told


def test_with_one_to_compare_it_stands_for_itself() -> None:
    told = alone(1.4)
    assert bias(told.plan) is None
    assert [found.setting for found in disagreements(told.plan)] == [BEST]


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_with_one_to_compare_the_scale_may_be_off(factor: float) -> None:
    """It is said, and nothing is measured anew."""
    told = alone(factor)
    assert disagreements(told.plan) == ()
    (note,) = notes(told.plan)
    assert f"than launches of {BEST}, the one setting" in note


def test_where_nothing_was_switched_all_is_launched() -> None:
    told = Told().starts(BEST, 3.0).window(setting(3, 2), 4.0)
    for _ in range(6):
        told.cold(BEST, 2.0)
    (found,) = disagreements(told.plan)
    assert found.knobs == set(LIVE)
    assert found.numbers == (1, 2)


def test_a_knob_that_is_not_tuned_is_not_named() -> None:
    told = Told().starts(BEST, 3.0).window(setting(3, 2), 4.0)
    for _ in range(6):
        told.cold(BEST, 2.0)
    effects = tuple(overridden("iterator_workers", 1)(BEST))
    told.records = [
        replace(each, outcome=replace(each.outcome, effects=effects)) for each in told.records
    ]
    (found,) = disagreements(told.plan)
    assert "iterator_workers" not in {knob.name for knob in told.plan.knobs}
    assert found.knobs == {"omp_threads"}


def test_knobs_that_agree_elsewhere_are_not_blamed() -> None:
    told = Told().starts(START, 3.0).window(setting(2, 2), 3.0).window(setting(1, 2), 2.5)
    told.window(setting(3, 1), 4.0)
    for _ in range(6):
        told.cold(setting(2, 2), 2.0).cold(setting(1, 2), 2.5).cold(START, 3.0)
    (found,) = disagreements(told.plan)
    assert found.knobs == {"omp_threads"}
    assert found.numbers == (2, 4)


@given(st.floats(0.955, 1.045))
def test_less_than_five_per_cent_is_none(factor: float) -> None:
    assert disagreements(study(best=factor, sd=0.0).plan) == ()


def test_what_differs_by_chance_is_rarely_taken_for_it() -> None:
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = study()
        for place, each in enumerate(told.records):
            time_s = 6.0 if each.setting == BASELINE else 2.0
            noisy = Finished(time_s * math.exp(0.05 * rng.gauss(0, 1)), 100)
            told.records[place] = replace(each, outcome=replace(each.outcome, ending=noisy))
        found += bool(disagreements(told.plan))
    assert found <= 12


def test_it_ends_with_all_knobs_cold() -> None:
    """Whatever windows say, each disagreement makes at least one knob more cold."""
    told = study(best=1.5, start=0.7)
    for _ in range(len(LIVE) + 1):
        before = blamed(told.records)
        found = disagreements(told.plan)
        if not found:
            return
        for each in found:
            told.exclude(each.numbers, each.exclusion)
        assert blamed(told.records) > before
    raise AssertionError("it does not end")
