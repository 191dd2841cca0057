from __future__ import annotations

import pytest

from tuner.launch.clocks import OtherSide, once_compared, stopper_by
from tuner.model import Clock, ObjectiveSpec, Progress, Stopped
from tuner.model.outcome import CUT, PACE
from tuner.search import throughput
from tuner.search.stopper import (
    EarlyStopper,
    GoOn,
    Limit,
    Log,
    Noise,
    ProjectionStopper,
    TimeLimitStopper,
    Verdict,
)

NOISE = Noise(startup_s=1.0, interval=10)


def verdict_of(
    clock: Clock, stopper: EarlyStopper, log: Log, since_s: float, iterations: int | None
) -> Verdict:
    by_clock = stopper_by(clock, stopper, iterations)
    assert by_clock is not None
    return by_clock(log, since_s, 1.0 if log else None)


@pytest.mark.parametrize(
    ("objective", "clock"),
    [
        (ObjectiveSpec(), "elapsed"),
        (ObjectiveSpec(statistic="steady"), "steady"),
        (ObjectiveSpec(key="val", unit="s"), "none"),
        (ObjectiveSpec(kind="wall"), "wall"),
        (ObjectiveSpec(kind="pattern", pattern="(.)", unit="s"), "none"),
        (ObjectiveSpec(kind="theirs"), "elapsed"),
        (ObjectiveSpec(kind="theirs", unit="GFLOPS"), "none"),
    ],
)
def test_which_figures_are_a_clock(objective: ObjectiveSpec, clock: Clock) -> None:
    assert objective.clock == clock
    is_none = stopper_by(clock, TimeLimitStopper(0.0), None) is None
    assert is_none == (clock in {"none", "steady"})


def test_a_launch_is_stopped_by_its_wall_time_alone() -> None:
    race = ProjectionStopper(Limit(10.0), NOISE, None)
    assert isinstance(verdict_of("wall", race, [], 9.9, None), GoOn)
    for stopper, since_s in ((race, 13.0), (TimeLimitStopper(12.0), 12.5)):
        verdict = verdict_of("wall", stopper, [(1, 0.1)], since_s, None)
        assert isinstance(verdict, Stopped) and verdict.bound_s == since_s


@pytest.mark.parametrize("number", [20, 10])
def test_the_unseen_end_takes_as_long_as_the_other_or_is_as_slow_as_the_rest(number: int) -> None:
    """The other side does 20 iterations, or half as many, in 2 s, and evaluates for 0.8 s."""
    times = [2.0 * n / number for n in range(1, number)] + [2.8]
    other_log = [Progress(n, time_s) for n, time_s in enumerate(times, start=1)]
    other = OtherSide(3.0, other_log[-1].elapsed_s, throughput.at_usual_pace(other_log))
    log = [(n, 0.5 * n) for n in range(1, 8)]
    verdict = once_compared("elapsed", 20, other)(log, 4.0, 0.5)
    assert isinstance(verdict, Stopped) and verdict.rule == PACE
    assert (verdict.low_s, verdict.high_s) == pytest.approx((5 * 2.0 + 0.8, 5 * 2.8))
    assert verdict.projection_s == pytest.approx((10.8 * 14.0) ** 0.5), "in the middle"


def test_an_uncertain_pace_counts_after_five_times_what_the_other_side_takes() -> None:
    stopper = once_compared("elapsed", 200, OtherSide(3.0, 2.0))
    log = [(1, 1.0), (2, 1.2), (3, 5.0), (4, 5.3), (5, 9.8)]
    assert isinstance(stopper(log, 10.0, 0.5), GoOn)
    for shown, rule in ((log, PACE), (log[:1], CUT)):
        verdict = stopper(shown, 11.0, 0.5)
        assert isinstance(verdict, Stopped) and verdict.rule == rule


def test_a_side_without_a_log_is_ended_after_five_times_the_other_and_its_start() -> None:
    stopper = once_compared("elapsed", 100, OtherSide(3.0, 2.0))
    assert isinstance(stopper([], 12.9, None), GoOn)
    verdict = stopper([], 13.1, None)
    assert isinstance(verdict, Stopped) and verdict.rule == CUT


def test_a_slow_warm_up_stops_nothing_and_a_slow_pace_does() -> None:
    race = ProjectionStopper(Limit(0.1), NOISE, 100)

    def at(pace_s: float, seen: int, since_s: float, warm_up_s: float = 0.0) -> Verdict:
        log = [(n, warm_up_s + pace_s * n) for n in range(10, seen + 1, 10)]
        return verdict_of("steady", race, log, since_s, 100)

    assert isinstance(at(0.1, 40, 506.0, warm_up_s=500.0), GoOn)
    assert isinstance(at(0.3, 10, 60.0), GoOn), "still warming up"
    verdict = at(0.3, 40, 13.5)
    assert isinstance(verdict, Stopped)
    assert verdict.projection_s == pytest.approx(0.3) and verdict.bound_s <= 0.3
