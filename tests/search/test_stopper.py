"""When a running trial is stopped, and what may be said of it then."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.trainings import ENTRY, Training, trainings
from tuner.model import Stopped
from tuner.search.stopper import (
    GoOn,
    Limit,
    Noise,
    ProjectionStopper,
    TimeLimitStopper,
    Verdict,
    elapsed_bound,
    judge,
)

ITERATIONS = 200
NOISE = Noise(startup_s=3.0, interval=ENTRY)

seconds = st.floats(0.5, 500.0)
shares = st.floats(0.01, 0.999)


def linear(elapsed_s: float, until_s: float) -> list[tuple[int, float]]:
    """The log of a run at an even pace, as far as it is written after ``until_s``."""
    pace_s = elapsed_s / ITERATIONS
    return [(k, k * pace_s) for k in range(ENTRY, ITERATIONS + 1, ENTRY) if k * pace_s <= until_s]


def verdict_of(
    log: list[tuple[int, float]],
    since_launch_s: float,
    startup_s: float | None,
    limit: Limit | None,
    noise: Noise = NOISE,
    iterations: int | None = ITERATIONS,
) -> Verdict:
    return judge(
        log,
        iterations,
        since_launch_s=since_launch_s,
        startup_s=startup_s,
        limit=limit,
        noise=noise,
    )


def watch(elapsed_s: float, share: float, limit: Limit | None, noise: Noise = NOISE) -> Verdict:
    """The verdict on an even run, ``share`` of it done, behind a start-up of 3 s."""
    log = linear(elapsed_s, share * elapsed_s)
    since_s = 3.0 + share * elapsed_s
    return verdict_of(log, since_s, 3.0 if log else None, limit, noise)


@given(trainings(), st.floats(0, 1), seconds, st.sampled_from([None, 0, 5]))
def test_what_is_stopped_would_have_taken_its_bound_at_least(
    training: Training, share: float, limit_s: float, more_entries: int | None
) -> None:
    """Whatever is expected of the run, also where it ends earlier or later."""
    iterations = None
    if more_entries is not None:
        iterations = ENTRY * (len(training.entries) + more_entries)
    looked = training.look(share * training.end_s)
    verdicts = (
        ProjectionStopper(Limit(limit_s), NOISE, iterations)(*looked),
        TimeLimitStopper(limit_s)(*looked),
    )
    for verdict in verdicts:
        if isinstance(verdict, Stopped):
            assert verdict.bound_s <= training.elapsed_s * (1 + 1e-9)
            assert verdict.low_s <= verdict.projection_s


@given(trainings(), st.floats(1, 10), seconds, st.floats(0, 1))
def test_a_run_that_is_done_is_never_stopped(
    training: Training, share: float, limit_s: float, entries_sooner: float
) -> None:
    """However long it takes after its training: that is none of its time."""
    looked = training.look(share * training.end_s + training.delay_s)
    last = training.entries[-1][0]
    iterations = last - int(entries_sooner * last)
    assert ProjectionStopper(Limit(limit_s), NOISE, iterations)(*looked) == GoOn(training.elapsed_s)
    assert TimeLimitStopper(limit_s, iterations)(*looked) == GoOn(training.elapsed_s)


@given(trainings(), st.floats(0, 1.2), seconds, st.floats(1, 3), st.sampled_from([None, 50, 100]))
def test_a_race_judges(
    training: Training, share: float, limit_s: float, factor: float, iterations: int | None
) -> None:
    log, now_s, own_startup_s = training.look(share * training.end_s)
    limit = Limit(limit_s, 0.05, factor)
    verdict = verdict_of(log, now_s, own_startup_s, limit, NOISE, iterations)
    assert ProjectionStopper(limit, NOISE, iterations)(log, now_s, own_startup_s) == verdict


@given(trainings(), st.floats(0, 1.2), st.sampled_from([0.5, 0.99, 1.0, 1.01, 2.0]))
def test_a_cut_stops_once_the_bound_is_above_it(
    training: Training, share: float, factor: float
) -> None:
    looked = training.look(share * training.end_s)
    bound_s = elapsed_bound(*looked)
    limit_s = max(0.01, factor * bound_s)
    expected: Verdict = GoOn()
    if bound_s > limit_s:
        expected = Stopped(bound_s, bound_s, bound_s, None, 0.5, "cut")
    assert TimeLimitStopper(limit_s)(*looked) == expected


@given(seconds, shares, seconds, st.floats(0.0, 0.3), st.floats(1.0, 5.0))
def test_what_is_projected_better_is_never_stopped(
    elapsed_s: float, share: float, limit_s: float, log_se: float, factor: float
) -> None:
    verdict = watch(elapsed_s, share, Limit(limit_s, log_se, factor))
    if isinstance(verdict, Stopped):
        assert verdict.projection_s > limit_s * factor
        assert verdict.bound_s <= verdict.projection_s


@given(seconds, shares, st.floats(1.0, 3.0))
def test_an_even_run_as_fast_as_the_incumbent_is_let_run(
    elapsed_s: float, share: float, slack: float
) -> None:
    assert isinstance(watch(elapsed_s, share, Limit(elapsed_s * slack)), GoOn)


@given(seconds, shares, seconds, shares)
def test_a_lower_limit_stops_no_less(
    elapsed_s: float, share: float, limit_s: float, less: float
) -> None:
    if isinstance(watch(elapsed_s, share, Limit(limit_s)), Stopped):
        assert isinstance(watch(elapsed_s, share, Limit(limit_s * less)), Stopped)


@given(seconds, shares, seconds, st.floats(0.0, 0.5))
def test_a_doubtful_incumbent_stops_no_more(
    elapsed_s: float, share: float, limit_s: float, log_se: float
) -> None:
    if isinstance(watch(elapsed_s, share, Limit(limit_s, log_se)), Stopped):
        assert isinstance(watch(elapsed_s, share, Limit(limit_s)), Stopped)


@given(seconds, shares)
def test_without_a_limit_all_run_to_the_end(elapsed_s: float, share: float) -> None:
    assert watch(elapsed_s, share, None) == GoOn()


@given(seconds, st.floats(0.2, 0.9))
def test_the_projection_of_an_even_run_is_its_finish(elapsed_s: float, share: float) -> None:
    verdict = watch(elapsed_s, share, Limit(elapsed_s / 2))
    assert isinstance(verdict, Stopped)
    assert math.isclose(verdict.projection_s, elapsed_s, rel_tol=1e-6)
    assert verdict.high_s is not None
    assert verdict.low_s <= verdict.projection_s <= verdict.high_s


def test_a_run_four_times_slower_is_stopped_in_its_first_quarter() -> None:
    assert isinstance(watch(40.0, 0.02, Limit(10.0)), GoOn)
    assert isinstance(watch(40.0, 0.25, Limit(10.0)), Stopped)


def test_a_slow_first_iteration_does_not_condemn() -> None:
    log = [(10, 5.0 + 0.5), (20, 5.0 + 1.0), (30, 5.0 + 1.5)]
    assert isinstance(verdict_of(log, 10.0, 3.0, Limit(16.0)), GoOn)


def test_a_silent_launch_has_time_for_a_slow_start() -> None:
    """How long a setting starts may depend on it: four usual start-ups, then the limit."""
    verdicts = [verdict_of([], t, None, Limit(10.0)) for t in (5.0, 20.0, 30.0)]
    assert [isinstance(v, Stopped) for v in verdicts] == [False, False, True]
    assert isinstance(verdicts[2], Stopped)
    assert (verdicts[2].rule, verdicts[2].bound_s, verdicts[2].log_sd) == ("whole launch", 0.0, 1.0)


def test_an_overdue_entry_stops_too() -> None:
    log = [(10, 0.5), (20, 1.0)]
    verdict = verdict_of(log, 3.0 + 9.0, 3.0, Limit(10.0))
    assert isinstance(verdict, Stopped)
    assert verdict.rule == "late"


def test_a_log_that_is_written_at_the_end_falls_back_to_the_whole_launch() -> None:
    noise = replace(NOISE, interval=None)
    assert isinstance(verdict_of([], 21.0, None, Limit(10.0), noise, None), GoOn)
    verdict = verdict_of([], 26.0, None, Limit(10.0), noise, None)
    assert isinstance(verdict, Stopped)
    assert verdict.rule == "whole launch"


def test_nothing_is_known_before_the_first_start_up_was_seen() -> None:
    noise = replace(NOISE, startup_s=None)
    assert verdict_of([], 1e6, None, Limit(10.0), noise) == GoOn()
