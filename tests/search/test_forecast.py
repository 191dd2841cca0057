"""When a run will have finished, by its log so far."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainings import ENTRY, Training, trainings
from tuner.search.stopper import by_drift, elapsed_bound, if_it_came_now, shared_out

paces_s = st.floats(0.001, 10.0)


def even(pace_s: float, entries: int, start_s: float = 0.0) -> list[tuple[int, float]]:
    return [(ENTRY * k, start_s + ENTRY * k * pace_s) for k in range(1, entries + 1)]


@given(trainings(), st.floats(0, 1))
def test_the_bound_is_never_above_what_has_passed(training: Training, share: float) -> None:
    now_s = share * training.end_s
    bound_s = elapsed_bound(*training.look(now_s))
    assert bound_s <= max(0.0, now_s - training.startup_s) + 1e-9


@given(trainings(delays_s=[0.0]), st.floats(0, 1.2), st.floats(0, 1.2))
def test_more_progress_never_lowers_the_bound(
    training: Training, share: float, later: float
) -> None:
    first, second = (
        elapsed_bound(*training.look(part * training.end_s)) for part in sorted((share, later))
    )
    assert first <= second + 1e-9


def test_what_the_log_says_has_passed_for_certain() -> None:
    """Whatever start-up is taken off; without an entry nothing is certain."""
    for own_startup_s in (9.0, None):
        assert elapsed_bound([(10, 5.0), (20, 7.0)], 8.0, own_startup_s) == 7.0
    assert elapsed_bound([], 1e6, None) == 0.0


@given(paces_s, st.integers(2, 9), st.floats(0, 60))
def test_an_even_run_finishes_at_its_pace(pace_s: float, entries: int, slow_start_s: float) -> None:
    """However slow it began: the drift is taken from the first entry on."""
    finish_s, log_sd = by_drift(even(pace_s, entries, slow_start_s), 100, 0.0)
    assert finish_s == pytest.approx(slow_start_s + 100 * pace_s)
    assert log_sd == pytest.approx(0.0, abs=1e-6)


def test_the_spread_of_a_forecast_is_that_of_a_random_walk() -> None:
    """Table 5.2: sigma * sqrt(h (1 + h / m)), here all of sigma the prior's."""
    finish_s, log_sd = by_drift(even(0.1, 5), 90, 0.2)
    sigma_s = 0.2 * 1.0 * math.sqrt(3 / 6)
    assert finish_s * log_sd == pytest.approx(sigma_s * math.sqrt(4 * (1 + 4 / 4)))


@given(trainings(), st.floats(0.01, 0.5))
def test_what_is_done_needs_no_forecast(training: Training, pace_cv: float) -> None:
    log = training.entries
    if len(log) > 1:
        finish_s, log_sd = by_drift(log, log[-1][0], pace_cv)
        assert finish_s == pytest.approx(training.elapsed_s)
        assert log_sd == 0.0


@given(paces_s, st.integers(1, 9), st.integers(0, 90), st.floats(0, 5))
def test_an_entry_that_comes_late_delays_the_finish(
    pace_s: float, entries: int, more: int, late_s: float
) -> None:
    log, coming = even(pace_s, entries), ENTRY * (entries + 1)
    on_time_s = if_it_came_now(log, coming, coming + more, coming * pace_s)
    assert on_time_s == pytest.approx((coming + more) * pace_s)
    assert if_it_came_now(log, coming, coming + more, coming * pace_s + late_s) >= on_time_s


@given(st.floats(0.01, 100), st.integers(1, 99), st.floats(0, 20), st.floats(0, 20))
def test_a_slower_first_iteration_leaves_the_others_faster(
    elapsed_s: float, done: int, costs: float, more: float
) -> None:
    finish_s = shared_out(elapsed_s, done, 100, costs)
    assert shared_out(elapsed_s, done, 100, costs + more) <= finish_s * (1 + 1e-12)
    assert shared_out(elapsed_s, done, 100, 0.0) == pytest.approx(elapsed_s * 100 / done)
