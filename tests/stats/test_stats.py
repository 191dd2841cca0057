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
from tuner.stats import estimates
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


def test_a_launch_that_ended_early_fails_whenever_that_shows() -> None:
    early = record(1, BASELINE, Finished(0.5, 60), Purpose.BASELINE)
    full, failed = record(2, A, 1.0), record(3, B, CRASH)
    assert estimates.judged([early]) == (early,)
    short, *others = estimates.judged([early, full, failed])
    assert others == [full, failed]
    assert short == replace(early, outcome=replace(early.outcome, ending=short.outcome.ending))
    assert isinstance(short.outcome.ending, Failed)
    assert short.outcome.ending.kind is FailureKind.WRONG_RESULT
    assert "iteration 60, another launch reached 100" in short.outcome.ending.reason


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
    once = estimates.judged(launches)
    assert estimates.judged(once) == once
    longest = max((length for *_, length in rows), default=None)
    for record_, (*_, length) in zip(once, rows, strict=True):
        assert length == longest or not record_.outcome.samples
    assert estimates.full_length(launches) == longest


def test_launches_of_one_canonical_setting_are_pooled() -> None:
    launches = [record(1, A, 3.0), record(2, B, 5.0), record(3, A, 4.0)]
    pooled = estimates.measurements(launches, lambda _: A)
    assert [(m.setting, m.elapsed_s, m.launches) for m in pooled] == [(A, 4.0, 3)]
    apart = estimates.measurements(launches, lambda s: s)
    assert [(m.setting, m.elapsed_s) for m in apart] == [(A, 3.5), (B, 5.0)]


def test_warm_ups_and_interrupted_launches_do_not_count() -> None:
    launches = [
        record(1, BASELINE, 9.0, Purpose.WARM_UP),
        record(2, A, INTERRUPTED),
        record(3, B, 1.0),
    ]
    assert [m.setting for m in estimates.measurements(launches, lambda s: s)] == [B]
    assert len(estimates.tried(launches)) == 1
    assert estimates.failures(launches) == 0


def test_the_nearest_projection_and_the_first_failure_are_kept() -> None:
    (failed,) = estimates.measurements([record(1, A, CRASH)], lambda s: s)
    assert failed.failure == CRASH
    nearer = replace(STOPPED, projection_s=3.0)
    launches = [record(1, A, STOPPED), record(2, A, nearer), record(3, A, CRASH)]
    (stopped,) = estimates.measurements(launches, lambda s: s)
    assert (stopped.stopped, stopped.failure, stopped.launches) == (nearer, None, 3)


endings = st.lists(
    st.one_of(st.floats(0.1, 9.0), st.just(CRASH), st.just(STOPPED), st.just(INTERRUPTED)),
    min_size=1,
    max_size=6,
)


@given(endings)
def test_a_setting_has_a_time_or_a_projection_or_a_failure(made: list[Ending | float]) -> None:
    launches = [record(n, A, ending) for n, ending in enumerate(made, 1)]
    found = estimates.measurements(launches, lambda s: s)
    counted = [ending for ending in made if ending is not INTERRUPTED]
    assert [m.launches for m in found] == ([len(counted)] if counted else [])
    for m in found:
        assert sum(known is not None for known in (m.elapsed_s, m.stopped, m.failure)) == 1
        assert (m.elapsed_s is not None) == any(isinstance(e, float) for e in counted)


def test_what_was_stopped_is_no_failure_and_has_no_length() -> None:
    launches = [record(1, A, STOPPED), record(2, B, CRASH)]
    assert estimates.failures(launches) == 1
    assert estimates.full_length(launches) is None
    assert estimates.judged([*launches, record(3, A, 1.0)])[:2] == tuple(launches)


def test_trials_are_distinct_settings_of_guesses_and_search() -> None:
    launches = [
        record(1, BASELINE, 9.0, Purpose.BASELINE),
        record(2, A, 1.0, Purpose.GUESS),
        record(3, A, 3.0, Purpose.REPEAT),
        record(4, A, 2.0, Purpose.CONFIRM),
        record(5, B, CRASH),
        record(6, B, 1.0),
        record(7, Setting.of({"threads": 3}), 2.0, Purpose.CONFIRM),
    ]
    assert len(estimates.tried(launches)) == 2
    assert estimates.failures(launches) == 1
    _, repeated, *_ = estimates.measurements(launches, lambda s: s)
    assert (repeated.elapsed_s, len(repeated.samples)) == (2.0, 3)


def measurement(setting: Setting, elapsed_s: float | None) -> Measurement:
    return Measurement(setting, (), elapsed_s, 1)


def test_of_equally_fast_settings_the_smaller_is_the_best() -> None:
    one = measurement(Setting.of({"threads": 2, "workers": 1}), 1.0)
    two = measurement(Setting.of({"threads": 1, "workers": 4}), 1.0)
    slow = measurement(Setting.of({"threads": 1, "workers": 1}), 2.0)
    assert estimates.best([two, slow, one]) == one
    assert estimates.best([measurement(A, None)]) is None
    assert estimates.best([]) is None


@given(st.permutations([(A, 1.0), (B, 1.0), (BASELINE, 1.0), (Setting.of({"x": "y"}), 1.0)]))
def test_the_best_does_not_depend_on_the_order(found: list[tuple[Setting, float]]) -> None:
    best = estimates.best(measurement(s, t) for s, t in found)
    assert best is not None and best.setting == BASELINE
