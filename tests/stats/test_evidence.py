from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import MACHINE
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
    Setting,
    Stopped,
)
from tuner.stats import evidence
from tuner.stats.loss_check import DIVERGED

A = Setting.of({"threads": 1})
B = Setting.of({"threads": 2})
CRASH = Failed(FailureKind.CRASHED, "exit status 1")
INTERRUPTED = Failed(FailureKind.INTERRUPTED, "ended by the user")
STOPPED = Stopped(1.0, 5.0, 4.0, 6.0, 0.1, "drift")


def record(
    number: int, setting: Setting, ending: Ending | float, purpose: Purpose = Purpose.SEARCH
) -> LaunchRecord:
    if isinstance(ending, float):
        ending = Finished(ending, 100)
    return LaunchRecord(number, purpose, setting, (), {}, "", "", Outcome(ending, 1.0, 0), MACHINE)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.1, 0.4, 3.0, DIVERGED]), st.integers(98, 100))
    )
)
def test_judging_twice_changes_nothing(rows: list[tuple[bool, float, int]]) -> None:
    launches = [
        record(
            n,
            BASELINE if is_default else A,
            Finished(1.0, length, None, loss),
            Purpose.BASELINE if is_default else Purpose.SEARCH,
        )
        for n, (is_default, loss, length) in enumerate(rows, 1)
    ]
    once = evidence.with_wrong_results(launches)
    assert evidence.with_wrong_results(once) == once
    longest = max((length for *_, length in rows), default=None)
    for record_, (*_, length) in zip(once, rows, strict=True):
        assert length == longest or not record_.outcome.samples
    assert evidence.full_length(launches) == longest


def test_launches_of_one_canonical_setting_are_pooled() -> None:
    launches = [record(1, A, 3.0), record(2, B, 5.0), record(3, A, 4.0)]
    pooled = evidence.measurements(replace(launch, comes_to=A) for launch in launches)
    assert [(m.setting, m.elapsed_s, m.launches) for m in pooled] == [(A, 4.0, 3)]
    apart = evidence.measurements(launches)
    assert [(m.setting, m.elapsed_s) for m in apart] == [(A, 3.5), (B, 5.0)]


endings = st.lists(
    st.one_of(st.floats(0.1, 9.0), st.just(CRASH), st.just(STOPPED), st.just(INTERRUPTED)),
    min_size=1,
    max_size=6,
)


@given(endings)
def test_a_setting_has_a_time_or_a_projection_or_a_failure(endings: list[Ending | float]) -> None:
    launches = [record(n, A, ending) for n, ending in enumerate(endings, 1)]
    measurements = evidence.measurements(launches)
    counted = [ending for ending in endings if ending is not INTERRUPTED]
    assert [m.launches for m in measurements] == ([len(counted)] if counted else [])
    for m in measurements:
        assert sum(part is not None for part in (m.elapsed_s, m.stopped, m.failure)) == 1
        assert (m.elapsed_s is not None) == any(isinstance(e, float) for e in counted)


def test_trials_are_distinct_settings_of_guesses_and_search_and_warm_ups_count_nothing() -> None:
    launches = [
        record(1, BASELINE, 9.0, Purpose.WARM_UP),
        record(2, BASELINE, 9.0, Purpose.BASELINE),
        record(3, A, 1.0, Purpose.GUESS),
        record(4, A, 3.0, Purpose.REPEAT),
        record(5, A, 2.0, Purpose.CONFIRM),
        record(6, B, CRASH),
        record(7, B, 1.0),
        record(8, B, STOPPED),
        record(9, B, INTERRUPTED),
        record(10, Setting.of({"threads": 3}), 2.0, Purpose.CONFIRM),
    ]
    assert evidence.tried(launches) == [A, B]
    assert evidence.failures(launches) == 1
    baseline, repeated, crashed, _ = evidence.measurements(launches)
    assert (baseline.launches, repeated.elapsed_s, crashed.launches) == (1, 2.0, 3)


@given(st.permutations([(A, 1.0), (B, 1.0), (BASELINE, 1.0), (Setting.of({"x": "y"}), 1.0)]))
def test_of_equally_fast_settings_the_smaller_is_the_best(
    times: list[tuple[Setting, float]],
) -> None:
    best = evidence.best(Measurement(setting, (), time_s, 1) for setting, time_s in times)
    assert best is not None and best.setting == BASELINE
    assert evidence.best([Measurement(A, (), None, 1)]) is None
