"""When a running trial is stopped, and what may be said of it then."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tuner.racing import GoOn, Limit, Noise, Stop, Verdict, judge

ITERATIONS = 200
ENTRY = 10
NOISE = Noise(startup_s=3.0, startup_sd=0.05, first_entry=ENTRY, interval=ENTRY)

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


@given(seconds, shares, seconds)
def test_the_bound_is_never_above_the_finish(
    elapsed_s: float, share: float, limit_s: float
) -> None:
    verdict = watch(elapsed_s, share, Limit(limit_s))
    if isinstance(verdict, Stop):
        assert verdict.bound_s <= elapsed_s * (1 + 1e-9)


@given(seconds, shares, seconds, st.floats(0.0, 0.3), st.floats(1.0, 5.0))
def test_what_is_projected_better_is_never_stopped(
    elapsed_s: float, share: float, limit_s: float, log_se: float, factor: float
) -> None:
    verdict = watch(elapsed_s, share, Limit(limit_s, log_se, factor))
    if isinstance(verdict, Stop):
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
    if isinstance(watch(elapsed_s, share, Limit(limit_s)), Stop):
        assert isinstance(watch(elapsed_s, share, Limit(limit_s * less)), Stop)


@given(seconds, shares, seconds, st.floats(0.0, 0.5))
def test_a_doubtful_incumbent_stops_no_more(
    elapsed_s: float, share: float, limit_s: float, log_se: float
) -> None:
    if isinstance(watch(elapsed_s, share, Limit(limit_s, log_se)), Stop):
        assert isinstance(watch(elapsed_s, share, Limit(limit_s)), Stop)


@given(seconds, shares)
def test_without_a_limit_all_run_to_the_end(elapsed_s: float, share: float) -> None:
    assert watch(elapsed_s, share, None) == GoOn()


@given(seconds, st.floats(0.2, 0.9))
def test_the_projection_of_an_even_run_is_its_finish(elapsed_s: float, share: float) -> None:
    verdict = watch(elapsed_s, share, Limit(elapsed_s / 2))
    assert isinstance(verdict, Stop)
    assert math.isclose(verdict.projection_s, elapsed_s, rel_tol=1e-6)
    low, high = verdict.interval
    assert low <= verdict.projection_s <= high


def test_a_run_four_times_slower_is_stopped_in_its_first_quarter() -> None:
    assert isinstance(watch(40.0, 0.02, Limit(10.0)), GoOn)
    assert isinstance(watch(40.0, 0.25, Limit(10.0)), Stop)


def test_a_slow_first_iteration_does_not_condemn() -> None:
    log = [(10, 5.0 + 0.5), (20, 5.0 + 1.0), (30, 5.0 + 1.5)]
    assert isinstance(verdict_of(log, 10.0, 3.0, Limit(16.0)), GoOn)


def test_a_silent_launch_is_stopped_once_it_cannot_come_in() -> None:
    """No entry yet: the time beyond any credible start-up counts as the first interval's."""
    verdicts = [verdict_of([], t, None, Limit(10.0)) for t in (3.0, 4.0, 20.0)]
    assert [isinstance(v, Stop) for v in verdicts] == [False, False, True]
    assert isinstance(verdicts[2], Stop)
    assert verdicts[2].rule == "no entry"


def test_an_overdue_entry_stops_too() -> None:
    log = [(10, 0.5), (20, 1.0)]
    verdict = verdict_of(log, 3.0 + 9.0, 3.0, Limit(10.0))
    assert isinstance(verdict, Stop)
    assert verdict.rule == "late"


def test_a_log_that_is_written_at_the_end_falls_back_to_the_whole_launch() -> None:
    noise = replace(NOISE, first_entry=None, interval=None)
    assert isinstance(verdict_of([], 12.0, None, Limit(10.0), noise, None), GoOn)
    verdict = verdict_of([], 16.0, None, Limit(10.0), noise, None)
    assert isinstance(verdict, Stop)
    assert verdict.rule == "elapsed"
    assert 10.0 < verdict.bound_s < 13.0


def test_nothing_is_known_before_the_first_start_up_was_seen() -> None:
    noise = replace(NOISE, startup_s=None)
    assert verdict_of([], 1e6, None, Limit(10.0), noise) == GoOn()
