"""What the cold runs say of a full run, and a window's figure by it."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import MACHINE
from tuner.live.scale import SILENT, FixedOverhead, FullRunModel, full_run_model, learned, rescaled
from tuner.model import (
    LOGGED_TIME,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Stopped,
    Window,
)
from tuner.search.throughput import steady_s

STEADY = ObjectiveSpec(statistic="steady")


def log(*times_s: float) -> tuple[Progress, ...]:
    return tuple(Progress(n, time_s) for n, time_s in enumerate(times_s, 1))


def record(progress: tuple[Progress, ...], ended: bool = True, live: bool = False) -> LaunchRecord:
    last = progress[-1]
    ending = Finished(last.elapsed_s, last.iteration)
    failed = Failed(FailureKind.CRASHED, "no such data")
    window = Window(1, ("omp_threads",), 0.0, 0.3, 1, 5, 0.1, 0.01, 9.0)
    outcome = Outcome(
        ending if ended else failed, 9.0, 0, progress, window=window if live else None
    )
    return LaunchRecord(
        1, Purpose.SEARCH, Setting(), (), {}, "", "2026-01-01T00:00:00Z", outcome, MACHINE
    )


def test_the_cold_runs_that_ended_count() -> None:
    records = [
        record(log(3.0, 4.0, 5.0)),
        record(log(2.0, 3.0, 4.0)),
        record(log(9.0, 10.0, 11.0)),
        record(log(90.0, 91.0), ended=False),
        record(log(90.0, 91.0), live=True),
    ]
    found = full_run_model(records, 3, LOGGED_TIME)
    assert (found.iterations, found.steady, found.incumbent_s) == (3, False, None)
    assert (found.overhead.iterations, found.overhead.seconds) == pytest.approx((1.0, 1.0))
    assert full_run_model([], 3, STEADY, 1.5) == FullRunModel(3, FixedOverhead(0.0), True, 1.5)


@given(st.floats(0.01, 10), st.floats(0, 20), st.floats(0, 20), st.booleans())
def test_the_usual_pace_is_that_of_the_best(
    pace_s: float, more: float, seconds: float, steady: bool
) -> None:
    known = FullRunModel(10, FixedOverhead(more, seconds), steady)
    best = dataclasses.replace(known, incumbent_s=known.figure_s(pace_s))
    assert known.usual_s is None
    assert best.usual_s == pytest.approx(pace_s)
    odd = dataclasses.replace(known, incumbent_s=known.figure_s(0.0) / 2 + 1e-6)
    assert odd.usual_s is not None
    assert odd.usual_s > 0


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=30), st.floats(0, 9), st.booleans())
def test_the_log_of_a_window_leads_to_its_figure(
    times_s: list[float], seconds: float, steady: bool
) -> None:
    known = FullRunModel(100, FixedOverhead(2.5, seconds), steady)
    seen = known.log(times_s)
    (first, _first_s), (last, last_s) = seen[0], seen[-1]
    pace_s = sum(times_s) / len(times_s)
    rest_s = known.clock_s((100 - last) * pace_s)
    assert last_s + rest_s == pytest.approx(known.figure_s(pace_s))
    assert (first, last) == (1, len(times_s))
    assert all(a[1] < b[1] for a, b in itertools.pairwise(seen))


def test_windows_are_scaled_anew_by_the_launches_that_count() -> None:
    warm_up = dataclasses.replace(record(log(9.0, 10.0, 11.0)), purpose=Purpose.WARM_UP)
    window = record(log(1.0, 2.0, 3.0), live=True)
    launch = record(log(3.0, 4.0, 5.0))
    at_first, at_last = (
        rescaled(records, LOGGED_TIME)[1].outcome.samples
        for records in ([warm_up, window], [warm_up, window, launch])
    )
    pace_s = 0.1
    assert at_first[0].elapsed_s == pytest.approx(pace_s * (3 + 4) + 4.0)
    assert at_last[0].elapsed_s == pytest.approx(pace_s * (3 + 1) + 1.0)
    assert rescaled([launch], LOGGED_TIME) == (launch,)


def test_where_a_stopped_window_was_going_is_told_by_its_pace_on_the_same_scale() -> None:
    """However it was judged, and whatever was known then; where no pace stands for it it stays."""
    launch, window = record(log(3.0, 4.0, 5.0)), record(log(1.0, 2.0, 3.0), live=True)
    pace_s = 0.1
    for rule, projection_s in (("pace", pace_s * (3 + 1) + 1.0), (SILENT, 0.9)):
        stopped = Stopped(0.5, 0.9, 0.8, None, 0.15, rule)
        left = dataclasses.replace(
            window, outcome=dataclasses.replace(window.outcome, ending=stopped)
        )
        _, found = rescaled([launch, left], LOGGED_TIME)
        ending = found.outcome.ending
        assert isinstance(ending, Stopped)
        assert ending.projection_s == pytest.approx(projection_s)
        assert (ending.low_s, ending.high_s, ending.bound_s) == (0.8, None, 0.5)


def test_a_steady_figure_has_what_is_behind_the_warm_up() -> None:
    cold = record(log(5.0, 6.0, 7.0, 8.0, 9.0, 12.0))
    figure_s = steady_s([(n, each) for n, each in enumerate((5.0, 6.0, 7.0, 8.0, 9.0, 12.0), 1)])
    found = full_run_model([cold], 6, STEADY)
    assert found.figure_s(1.0) == pytest.approx(figure_s)
    assert found.figure_s(1.0) > 1.0


# --- the overhead, by the logs ------------------------------------------------------------

PACES = st.floats(0.01, 10)


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


@pytest.mark.parametrize(
    ("times_s", "iterations"),
    [((3.0, 4.0, 5.0, 6.0), 2.0), ((1.0, 2.0, 3.0, 8.0, 9.0, 10.0), 4.0)],
    ids=["a slow first iteration", "an evaluation that the log holds"],
)
def test_a_log_shows_what_a_run_takes_beside_its_iterations(
    times_s: tuple[float, ...], iterations: float
) -> None:
    found = learned([record(log(*times_s))], steady=False)
    assert found is not None and found.at_s(1.0) == pytest.approx(iterations)
    assert learned([record(log(3.0))], steady=False) is None, "one entry says nothing"


@given(PACES, st.floats(0.1, 50), st.sampled_from([1, 2]))
def test_settings_of_one_pace_do_not_tell_what_goes_with_it(
    pace_s: float, excess_s: float, other: int
) -> None:
    found = of(run(1, pace_s, excess_s), run(other, pace_s, excess_s))
    assert found.seconds == pytest.approx(excess_s / 2, rel=1e-3)
    assert found.at_s(pace_s) == pytest.approx(excess_s, rel=1e-3)


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
