"""What the cold runs say of a full run, and a window's figure by it."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import MACHINE
from tuner.live.scale import FullRunModel, full_run_model, rescaled
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
    assert found.overhead == pytest.approx(2.0)
    assert full_run_model([], 3, STEADY, 1.5) == FullRunModel(3, 0.0, True, 1.5)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=30), st.booleans())
def test_the_log_of_a_window_leads_to_its_figure(times_s: list[float], steady: bool) -> None:
    known = FullRunModel(100, 2.5, steady)
    seen = known.log(times_s)
    (first, _first_s), (last, last_s) = seen[0], seen[-1]
    pace_s = sum(times_s) / len(times_s)
    rest_s = (100 - last) * pace_s / (100 if steady else 1)
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
    assert at_first[0].elapsed_s == pytest.approx(pace_s * (3 + 8))
    assert at_last[0].elapsed_s == pytest.approx(pace_s * (3 + 2))
    assert rescaled([launch], LOGGED_TIME) == (launch,)


def test_where_a_stopped_window_was_going_is_told_by_its_pace_on_the_same_scale() -> None:
    """However it was judged, and whatever was known then."""
    launch, window = record(log(3.0, 4.0, 5.0)), record(log(1.0, 2.0, 3.0), live=True)
    left = dataclasses.replace(window.outcome, ending=Stopped(0.5, 0.9, 0.8, None, 0.15, "pace"))
    _, found = rescaled([launch, dataclasses.replace(window, outcome=left)], LOGGED_TIME)
    ending = found.outcome.ending
    assert isinstance(ending, Stopped)
    assert ending.projection_s == pytest.approx(0.1 * (3 + 2))
    assert (ending.low_s, ending.high_s, ending.bound_s) == (0.5, None, 0.5)


def test_a_steady_figure_has_what_is_behind_the_warm_up() -> None:
    cold = record(log(5.0, 6.0, 7.0, 8.0, 9.0, 12.0))
    figure_s = steady_s([(n, each) for n, each in enumerate((5.0, 6.0, 7.0, 8.0, 9.0, 12.0), 1)])
    found = full_run_model([cold], 6, STEADY)
    assert found.figure_s(1.0) == pytest.approx(figure_s)
    assert found.figure_s(1.0) > 1.0


@pytest.mark.parametrize(
    ("times_s", "iterations"),
    [((3.0, 4.0, 5.0, 6.0), 2.0), ((1.0, 2.0, 3.0, 8.0, 9.0, 10.0), 4.0)],
    ids=["a slow first iteration", "an evaluation that the log holds"],
)
def test_a_log_shows_what_a_run_takes_beside_its_iterations(
    times_s: tuple[float, ...], iterations: float
) -> None:
    found = full_run_model([record(log(*times_s))], 9, LOGGED_TIME)
    assert found.overhead == pytest.approx(iterations)
    nothing = [record(log(3.0))]  # one entry says nothing
    assert full_run_model(nothing, 9, LOGGED_TIME) == full_run_model([], 9, LOGGED_TIME)
