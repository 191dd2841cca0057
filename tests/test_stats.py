from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import MACHINE
from tuner import stats
from tuner.model import (
    BASELINE,
    Ending,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Measurement,
    Outcome,
    Purpose,
    Sample,
    Setting,
)

A = Setting.of({"threads": 1})
B = Setting.of({"threads": 2})
CRASH = Failed(FailureKind.CRASHED, "exit status 1")
STOPPED = Failed(FailureKind.INTERRUPTED, "ended by the user")

times = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20)


def record(
    number: int, setting: Setting, ending: Ending | float, purpose: Purpose = Purpose.SEARCH
) -> LaunchRecord:
    if isinstance(ending, float):
        ending = Finished(ending, 100)
    return LaunchRecord(number, purpose, setting, (), {}, "", "", Outcome(ending, 1.0, 0), MACHINE)


def samples(values: list[float]) -> list[Sample]:
    return [Sample(value, 1) for value in values]


@given(times)
def test_the_estimate_is_the_median_and_lies_within(values: list[float]) -> None:
    estimate = stats.estimate_s(samples(values))
    assert estimate == statistics.median(values)
    assert estimate is not None and min(values) <= estimate <= max(values)


def test_nothing_measured_has_no_estimate() -> None:
    assert stats.estimate_s([]) is None


@given(times, st.floats(0.5, 2.0))
def test_the_spread_scales_with_the_times(values: list[float], factor: float) -> None:
    spread = stats.spread_s(samples(values))
    scaled = stats.spread_s(samples([value * factor for value in values]))
    if len(values) < 2:
        assert spread is None
    else:
        assert spread is not None and spread >= 0
        assert scaled == pytest.approx(spread * factor, abs=1e-6)


def test_one_outlier_hardly_moves_the_spread() -> None:
    calm = stats.spread_s(samples([1.0, 1.1, 0.9, 1.0, 1.05]))
    wild = stats.spread_s(samples([1.0, 1.1, 0.9, 1.0, 30.0]))
    assert calm is not None and wild is not None
    assert wild < 3 * calm


def test_launches_of_one_canonical_setting_are_pooled() -> None:
    launches = [record(1, A, 3.0), record(2, B, 5.0), record(3, A, 4.0)]
    pooled = stats.measurements(launches, lambda _: A)
    assert [(m.setting, m.elapsed_s, m.launches) for m in pooled] == [(A, 4.0, 3)]
    apart = stats.measurements(launches, lambda s: s)
    assert [(m.setting, m.elapsed_s) for m in apart] == [(A, 3.5), (B, 5.0)]


def test_warm_ups_and_interrupted_launches_do_not_count() -> None:
    launches = [record(1, BASELINE, 9.0, Purpose.WARM_UP), record(2, A, STOPPED), record(3, B, 1.0)]
    assert [m.setting for m in stats.measurements(launches, lambda s: s)] == [B]
    assert stats.trials(launches) == 1
    assert stats.failures(launches) == 0


def test_a_failure_stays_with_its_setting_until_a_launch_works() -> None:
    (failed,) = stats.measurements([record(1, A, CRASH)], lambda s: s)
    assert failed.failure == CRASH and failed.elapsed_s is None
    (mended,) = stats.measurements([record(1, A, CRASH), record(2, A, 2.0)], lambda s: s)
    assert mended.failure is None and (mended.elapsed_s, mended.launches) == (2.0, 2)


def test_trials_are_distinct_settings_of_guesses_and_search() -> None:
    launches = [
        record(1, BASELINE, 9.0, Purpose.BASELINE),
        record(2, A, 1.0, Purpose.GUESS),
        record(3, B, CRASH),
        record(4, B, 1.0),
    ]
    assert stats.trials(launches) == 2
    assert stats.failures(launches) == 1


def measurement(setting: Setting, elapsed_s: float | None) -> Measurement:
    return Measurement(setting, (), elapsed_s, 1)


def test_of_equally_fast_settings_the_smaller_is_the_best() -> None:
    one = measurement(Setting.of({"threads": 2, "workers": 1}), 1.0)
    two = measurement(Setting.of({"threads": 1, "workers": 4}), 1.0)
    slow = measurement(Setting.of({"threads": 1, "workers": 1}), 2.0)
    assert stats.best([two, slow, one]) == one
    assert stats.best([measurement(A, None)]) is None
    assert stats.best([]) is None


@given(st.permutations([(A, 1.0), (B, 1.0), (BASELINE, 1.0), (Setting.of({"x": "y"}), 1.0)]))
def test_the_best_does_not_depend_on_the_order(found: list[tuple[Setting, float]]) -> None:
    best = stats.best(measurement(s, t) for s, t in found)
    assert best is not None and best.setting == BASELINE
