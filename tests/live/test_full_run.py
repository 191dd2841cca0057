"""What the cold launches say of a full run, and a window's figure by that."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import MACHINE
from tuner.live.full_run import MOST_ENTRIES, FullRunModel, full_run_model, rescaled
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

STEADY = ObjectiveSpec(statistic="steady")
PACE_S = 0.1


def record(*times_s: float, ended: bool = True, live: bool = False) -> LaunchRecord:
    """A launch with an iteration logged at each of these times, or a window."""
    progress = tuple(Progress(n, time_s) for n, time_s in enumerate(times_s, 1))
    ending = Finished(times_s[-1], len(times_s))
    failed = Failed(FailureKind.CRASHED, "no such data")
    window = Window(1, ("omp_threads",), 0.0, 0.3, 1, 5, PACE_S, 0.01, 9.0) if live else None
    outcome = Outcome(ending if ended else failed, 9.0, 0, progress, window=window)
    return LaunchRecord(
        1, Purpose.SEARCH, Setting(), (), {}, "", "2026-01-01T00:00:00Z", outcome, MACHINE
    )


@pytest.mark.parametrize(
    ("records", "overhead"),
    [
        ([record(3.0, 4.0, 5.0), record(2.0, 3.0, 4.0), record(9.0, 10.0, 11.0)], 2.0),
        ([record(3.0, 4.0, 5.0), record(90.0, 91.0, ended=False)], 2.0),
        ([record(1.0, 2.0, 3.0, 8.0, 9.0, 10.0)], 4.0),  # an evaluation that the log holds
        ([record(3.0)], full_run_model([], 9, LOGGED_TIME).overhead_iterations),  # one entry
    ],
)
def test_logs_show_what_a_run_takes_beside_its_iterations(
    records: list[LaunchRecord], overhead: float
) -> None:
    model = full_run_model(records, 9, LOGGED_TIME, 1.5)
    assert (model.iterations, model.steady, model.incumbent_s) == (9, False, 1.5)
    assert model.overhead_iterations == pytest.approx(overhead)


def test_a_steady_figure_has_what_is_behind_the_warm_up() -> None:
    model = full_run_model([record(5.0, 6.0, 7.0, 8.0, 9.0, 12.0)], 6, STEADY)
    assert model.figure_s(1.0) > 1.0
    assert full_run_model([], 3, STEADY) == FullRunModel(3, 0.0, steady=True)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=500), st.booleans())
def test_the_log_of_a_window_leads_to_its_figure(times_s: list[float], steady: bool) -> None:
    model = FullRunModel(1000, 2.5, steady)
    log = model.log(times_s)
    last, last_s = log[-1]
    pace_s = sum(times_s) / len(times_s)
    rest_s = (1000 - last) * pace_s / (1000 if steady else 1)
    assert last_s + rest_s == pytest.approx(model.figure_s(pace_s))
    assert last == len(times_s) and len(log) <= MOST_ENTRIES
    assert all(a < b for a, b in pairwise(log))


def test_windows_are_scaled_anew_by_the_launches_that_count() -> None:
    warm_up = replace(record(9.0, 10.0, 11.0), purpose=Purpose.WARM_UP)
    window, launch = record(1.0, 2.0, 3.0, live=True), record(3.0, 4.0, 5.0)
    stop = Stopped(0.5, 0.9, 0.8, None, 0.15, "pace")
    stopped = replace(window, outcome=replace(window.outcome, ending=stop))
    for records, overhead in (([warm_up], 8), ([warm_up, launch], 2)):
        *_, first, second = rescaled([*records, window, stopped], LOGGED_TIME)
        assert isinstance(first.outcome.ending, Finished)
        assert isinstance(second.outcome.ending, Stopped)
        figure_s = pytest.approx(PACE_S * (3 + overhead))
        assert first.outcome.ending.elapsed_s == figure_s
        assert second.outcome.ending.projection_s == figure_s
        assert second.outcome.ending.high_s is None
    assert rescaled([launch], LOGGED_TIME) == (launch,)
