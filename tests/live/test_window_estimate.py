"""When a window is steady, how good its pace is, when it may end, and a full run's figure by it."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import CRASH, record
from tuner.live.eligibility import LEAST_ITERATIONS
from tuner.live.full_run import MOST_ENTRIES, FullRunModel, full_run_model, rescaled
from tuner.live.window_estimate import WindowEstimate, estimate, is_long_enough, stopped
from tuner.model import (
    BASELINE,
    LOGGED_TIME,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Outcome,
    Progress,
    Purpose,
    Stopped,
    Window,
)
from tuner.search.stopper import EarlyStopper, Limit, Noise, ProjectionStopper, TimeLimitStopper

TIMES = st.lists(st.floats(1e-4, 1e3), min_size=2, max_size=60)


@given(TIMES)
def test_the_discarded_are_one_to_half_with_the_least_marginal_error(times_s: list[float]) -> None:
    def error(discarded: int) -> float:
        rest = times_s[discarded:]
        return statistics.pvariance(rest) / len(rest)

    discarded, half = estimate(times_s).discarded, len(times_s) // 2
    assert 1 <= discarded <= half
    assert error(discarded) <= min(map(error, range(1, half + 1))) + 1e-9 * max(times_s) ** 2


@pytest.mark.parametrize(("kept", "least", "most"), [(0.0, 0.85, 1.15), (0.9, 2.5, 5.0)])
def test_the_error_of_independent_times_is_the_usual_one_and_of_others_greater(
    kept: float, least: float, most: float
) -> None:
    generator, level, times_s = random.Random(1), 0.0, []
    for _ in range(2000):
        level = kept * level + generator.gauss(0, 0.1)
        times_s.append(5 + level)
    usual = statistics.stdev(times_s) / math.sqrt(2000) / statistics.fmean(times_s)
    error, longer_s = WindowEstimate(0, tuple(times_s)).pace_se, tuple(100 * s for s in times_s)
    assert least < error / usual < most
    assert WindowEstimate(0, longer_s).pace_se == pytest.approx(error)


QUIET = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
NOISY = [1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 1.0, 1.2]


@pytest.mark.parametrize(
    ("times_s", "precision", "most", "period", "ratio", "ends"),
    [
        (QUIET, 0.01, 100, 1, None, True),
        (QUIET, 0.0001, 5, 1, None, True),  # a whole run
        (QUIET[:LEAST_ITERATIONS], 0.01, 100, 1, None, False),
        ([0.03] * 8, 0.01, 100, 1, None, False),  # too short
        ([0.06] * 8, 0.01, 100, 1, None, True),
        ([0.06] * 8, 0.01, 100, 8, None, False),  # it may repeat itself after 8
        ([0.06] * 17, 0.01, 100, 8, None, True),
        (NOISY, 0.01, 100, 1, 1.05, False),
        (NOISY, 0.01, 100, 1, 2.0, True),  # far behind the best
    ],
)
def test_a_window_ends_once_it_is_good_enough(
    times_s: list[float], precision: float, most: int, period: int, ratio: float | None, ends: bool
) -> None:
    window, model = estimate(times_s), FullRunModel(most)
    if ratio is not None:
        model = FullRunModel(most, incumbent_s=model.figure_s(window.pace_s) / ratio)
    assert is_long_enough(window, model, precision, period=period) is ends


MODEL = FullRunModel(100, 3.0, incumbent_s=10.3)
RACE = ProjectionStopper(Limit(15.0), Noise(interval=10), 100)


@pytest.mark.parametrize(
    ("times_s", "stopper", "is_stopped"),
    [
        ([0.6, 0.6], RACE, True),
        ([0.1, 0.11, 0.12, 0.1, 0.1], RACE, False),  # it may win
        # An accident.
        *(([0.1] * once + [9.0] + [0.1] * (3 - once), RACE, False) for once in range(4)),
        ([0.5] * 5, TimeLimitStopper(1.0), True),
        ([0.1] * 5, TimeLimitStopper(1.0), False),
        ([0.5] * 5, None, False),
    ],
)
def test_what_cannot_win_or_takes_too_long_is_stopped_by_its_pace(
    times_s: list[float], stopper: EarlyStopper | None, is_stopped: bool
) -> None:
    result = stopped(WindowEstimate(1, tuple(times_s)), MODEL, stopper)
    assert (result is not None) is is_stopped
    assert result is None or result.projection_s == pytest.approx(103 * times_s[0])


STEADY = ObjectiveSpec(statistic="steady")
PACE_S = 0.1


def logged(
    *times_s: float, ended: bool = True, live: bool = False, purpose: Purpose = Purpose.SEARCH
) -> LaunchRecord:
    """A launch with an iteration logged at each of these times, or a window."""
    progress = tuple(Progress(n, time_s) for n, time_s in enumerate(times_s, 1))
    finished = Finished(times_s[-1], len(times_s))
    window = Window(1, ("omp_threads",), 0.0, 0.3, 1, 5, PACE_S, 0.01, 9.0) if live else None
    outcome = Outcome(finished if ended else CRASH, 9.0, 0, progress, window=window)
    return record(1, BASELINE, purpose, outcome)


@pytest.mark.parametrize(
    ("records", "overhead"),
    [
        ([logged(3.0, 4.0, 5.0), logged(2.0, 3.0, 4.0), logged(9.0, 10.0, 11.0)], 2.0),
        ([logged(3.0, 4.0, 5.0), logged(90.0, 91.0, ended=False)], 2.0),
        ([logged(1.0, 2.0, 3.0, 8.0, 9.0, 10.0)], 4.0),  # an evaluation that the log holds
        ([logged(3.0)], full_run_model([], 9, LOGGED_TIME).overhead_iterations),  # one entry
    ],
)
def test_logs_show_the_time_beside_iterations(records: list[LaunchRecord], overhead: float) -> None:
    model = full_run_model(records, 9, LOGGED_TIME, 1.5)
    assert (model.iterations, model.steady, model.incumbent_s) == (9, False, 1.5)
    assert model.overhead_iterations == pytest.approx(overhead)


def test_a_steady_figure_has_what_is_behind_the_warm_up() -> None:
    model = full_run_model([logged(5.0, 6.0, 7.0, 8.0, 9.0, 12.0)], 6, STEADY)
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
    warm_up = logged(9.0, 10.0, 11.0, purpose=Purpose.WARM_UP)
    window, launch = logged(1.0, 2.0, 3.0, live=True), logged(3.0, 4.0, 5.0)
    stop = Stopped(0.5, 0.9, 0.8, None, 0.15, "pace")
    stopped_window = replace(window, outcome=replace(window.outcome, ending=stop))
    for records, overhead in (([warm_up], 8), ([warm_up, launch], 2)):
        *_, first, second = rescaled([*records, window, stopped_window], LOGGED_TIME)
        assert isinstance(first.outcome.ending, Finished)
        assert isinstance(second.outcome.ending, Stopped)
        figure_s = pytest.approx(PACE_S * (3 + overhead))
        assert first.outcome.ending.elapsed_s == figure_s
        assert second.outcome.ending.projection_s == figure_s
        assert second.outcome.ending.high_s is None
    assert rescaled([launch], LOGGED_TIME) == (launch,)
