"""When a running trial is stopped, and what may be said of it then."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model import Progress, Stopped
from tuner.search.stopper import GoOn, Limit, Noise, ProjectionStopper, TimeLimitStopper, by_drift
from tuner.search.throughput import startup_s

#: Iterations between two entries of the log.
ENTRY = 10


@dataclass(frozen=True)
class Training:
    """A run: when its log could be read, and what it says then."""

    startup_s: float
    entries: tuple[tuple[int, float], ...]
    burst: int  # so many entries are written at once; the rest at the end
    delay_s: float  # until somebody looks

    @property
    def elapsed_s(self) -> float:
        return self.entries[-1][1]

    @property
    def end_s(self) -> float:
        return self.startup_s + self.elapsed_s

    def look(self, since_launch_s: float) -> tuple[list[tuple[int, float]], float, float | None]:
        """What a stopper is shown so long after the launch: the log, this time, the start-up."""
        shown: list[Progress] = []
        for first in range(0, len(self.entries), self.burst):
            burst = self.entries[first : first + self.burst]
            seen_s = self.startup_s + burst[-1][1] + self.delay_s
            if seen_s <= since_launch_s:
                shown += [Progress(k, elapsed_s, seen_s) for k, elapsed_s in burst]
        log = [(entry.iteration, entry.elapsed_s) for entry in shown]
        return log, since_launch_s, startup_s(shown)


@st.composite
def trainings(draw: st.DrawFn, delays_s: Sequence[float] = (0.0, 0.1, 2.0)) -> Training:
    """Uneven runs with a slow first step, any start-up, and a log in bursts."""
    steps = draw(st.lists(st.floats(0.01, 20), min_size=1, max_size=20))
    times = itertools.accumulate(steps, initial=draw(st.floats(0.01, 60)))
    return Training(
        draw(st.floats(0, 100)),
        tuple((ENTRY * k, elapsed_s) for k, elapsed_s in enumerate(times, start=1)),
        draw(st.sampled_from([1, 2, 5, 100])),
        draw(st.sampled_from(delays_s)),
    )


ITERATIONS = 200
NOISE = Noise(startup_s=3.0, interval=ENTRY)

seconds = st.floats(0.5, 500.0)
shares = st.floats(0.01, 0.999)
paces_s = st.floats(0.001, 10.0)


def even(pace_s: float, entries: int, start_s: float = 0.0) -> list[tuple[int, float]]:
    return [(ENTRY * k, start_s + ENTRY * k * pace_s) for k in range(1, entries + 1)]


def linear(elapsed_s: float, until_s: float) -> list[tuple[int, float]]:
    """The log of a run at an even pace, as far as it is written after ``until_s``."""
    pace_s = elapsed_s / ITERATIONS
    return [(k, k * pace_s) for k in range(ENTRY, ITERATIONS + 1, ENTRY) if k * pace_s <= until_s]


def watch(elapsed_s: float, share: float, limit: Limit) -> GoOn | Stopped:
    """The verdict on an even run, ``share`` of it done, behind a start-up of 3 s."""
    log = linear(elapsed_s, share * elapsed_s)
    stopper = ProjectionStopper(limit, NOISE, ITERATIONS)
    return stopper(log, 3.0 + share * elapsed_s, 3.0 if log else None)


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


@given(seconds, shares, st.floats(1.0, 3.0))
def test_an_even_run_as_fast_as_the_incumbent_is_let_run(
    elapsed_s: float, share: float, slack: float
) -> None:
    assert isinstance(watch(elapsed_s, share, Limit(elapsed_s * slack)), GoOn)


@given(seconds, shares, seconds, shares, st.floats(0.0, 0.5))
def test_a_lower_limit_stops_no_less_and_a_doubtful_one_no_more(
    elapsed_s: float, share: float, limit_s: float, less: float, log_se: float
) -> None:
    if isinstance(watch(elapsed_s, share, Limit(limit_s, log_se)), Stopped):
        assert isinstance(watch(elapsed_s, share, Limit(limit_s)), Stopped)
        assert isinstance(watch(elapsed_s, share, Limit(limit_s * less, log_se)), Stopped)


@pytest.mark.parametrize(
    ("log", "since_s", "startup_s", "interval", "rule"),
    [
        ([(10, 5.5), (20, 6.0), (30, 6.5)], 10.0, 3.0, 10, None),  # a slow first iteration
        ([], 20.0, None, 10, None),  # four usual start-ups, then the limit
        ([], 30.0, None, 10, "whole launch"),
        ([(10, 0.5), (20, 1.0)], 15.0, 3.0, 10, "late"),  # an entry is overdue
        ([], 21.0, None, None, None),  # a log that is written at the end
        ([], 30.0, None, None, "whole launch"),
    ],
)
def test_what_stops_a_launch(
    log: list[tuple[int, float]],
    since_s: float,
    startup_s: float | None,
    interval: int | None,
    rule: str | None,
) -> None:
    noise, iterations = replace(NOISE, interval=interval), ITERATIONS if interval else None
    verdict = ProjectionStopper(Limit(15.0), noise, iterations)(log, since_s, startup_s)
    assert (verdict.rule if isinstance(verdict, Stopped) else None) == rule
