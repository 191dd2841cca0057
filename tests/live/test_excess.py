"""What the logs of cold runs say of what a run takes beyond its iterations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import MACHINE
from tuner.live.fixed_overhead import FixedOverhead, learned, warm_up_iterations
from tuner.model import Finished, LaunchRecord, Outcome, Progress, Purpose, Setting

PACES = st.floats(0.01, 10)


def log(*times_s: float) -> tuple[Progress, ...]:
    return tuple(Progress(n, time_s) for n, time_s in enumerate(times_s, 1))


def run(threads: int, pace_s: float, excess_s: float, iterations: int = 20) -> LaunchRecord:
    """A launch that takes ``excess_s`` before its first iteration."""
    entries = log(*(excess_s + n * pace_s for n in range(1, iterations + 1)))
    outcome = Outcome(Finished(entries[-1].elapsed_s, iterations), 9.0, 0, entries)
    setting = Setting((("omp_threads", threads),))
    when = "2026-01-01T00:00:00Z"
    return LaunchRecord(1, Purpose.SEARCH, setting, (), {}, "", when, outcome, MACHINE)


def of(*records: LaunchRecord) -> FixedOverhead:
    found = learned(records, steady=False)
    assert found is not None
    return found


def test_a_slow_first_iteration_counts_for_more_than_one() -> None:
    assert warm_up_iterations(log(3.0, 4.0, 5.0, 6.0)) == pytest.approx(2.0)


def test_so_does_an_evaluation_that_the_log_holds() -> None:
    assert warm_up_iterations(log(1.0, 2.0, 3.0, 8.0, 9.0, 10.0)) == pytest.approx(4.0)


def test_a_log_with_one_entry_says_nothing() -> None:
    assert warm_up_iterations(log(3.0)) is None
    assert warm_up_iterations(()) is None


@given(PACES, st.floats(0.1, 50))
def test_one_setting_does_not_tell_what_goes_with_the_pace(pace_s: float, excess_s: float) -> None:
    found = of(run(1, pace_s, excess_s), run(1, pace_s, excess_s))
    assert found.seconds == pytest.approx(excess_s / 2, rel=1e-3)
    assert found.at_s(pace_s) == pytest.approx(excess_s, rel=1e-3)


@given(PACES, st.floats(0.1, 50))
def test_two_of_one_pace_tell_no_more(pace_s: float, excess_s: float) -> None:
    found = of(run(1, pace_s, excess_s), run(2, pace_s, excess_s))
    assert found.seconds == pytest.approx(excess_s / 2, rel=1e-3)


@given(st.floats(0, 20), st.floats(0, 20))
def test_others_tell_which_part_grows(seconds: float, iterations: float) -> None:
    truth = FixedOverhead(iterations, seconds)
    paces_s = [0.1 * 2**n for n in range(6)]
    found = of(*(run(n, pace_s, truth.at_s(pace_s)) for n, pace_s in enumerate(paces_s)))
    for pace_s in paces_s:
        whole_s = 20 * pace_s
        assert found.at_s(pace_s) == pytest.approx(truth.at_s(pace_s), abs=0.1 * whole_s)


@given(st.lists(st.tuples(PACES, st.floats(0, 50)), min_size=1, max_size=8))
def test_no_part_is_negative_and_more_than_was_ever_seen(runs: list[tuple[float, float]]) -> None:
    found = of(*(run(n, *each) for n, each in enumerate(runs)))
    assert found.iterations >= 0
    assert found.seconds >= 0
    most = max(excess_s / pace_s for pace_s, excess_s in runs)
    lowest_s = min(pace_s for pace_s, _ in runs)
    assert found.at_s(lowest_s) <= 2 * most * max(pace_s for pace_s, _ in runs) + 1e-6


def test_a_run_that_hung_once_does_not_count() -> None:
    assert of(run(1, 1.0, 2.0), run(1, 1.0, 90.0), run(1, 1.0, 2.0)).at_s(1.0) == pytest.approx(2)


def test_nothing_beyond_is_nothing() -> None:
    assert of(run(1, 1.0, 0.0)) == FixedOverhead(0.0)
    assert learned([], steady=False) is None
