"""When a window is steady, how good its pace is, and when it may end or is stopped."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import MACHINE
from tuner.launch.clocks import stopper_by
from tuner.live.scale import FullRunModel, full_run_model, rescaled
from tuner.live.windows import (
    DISTANCE_SHARE,
    LEAST,
    MOST,
    Estimate,
    estimate,
    is_long_enough,
    relative_error,
    stopped,
)
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
from tuner.search.stopper import Limit, Noise, ProjectionStopper, TimeLimitStopper
from tuner.search.throughput import steady_s


def enough(
    window: Estimate, precision: float, most: int, period: int = 1, ratio: float | None = None
) -> bool:
    model = FullRunModel(most)
    if ratio is not None:
        model = FullRunModel(most, incumbent_s=model.figure_s(window.pace_s) / ratio)
    return is_long_enough(window, model, precision, period=period)


TIMES = st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=60)


@given(TIMES)
def test_the_discarded_are_one_to_half_with_the_least_marginal_error(times_s: list[float]) -> None:
    def error(discarded: int) -> float:
        rest = times_s[discarded:]
        return statistics.pvariance(rest) / len(rest)

    discarded, half = estimate(times_s).discarded, max(1, len(times_s) // 2)
    assert 1 <= discarded <= half
    if len(times_s) >= 2:
        least = min(error(d) for d in range(1, half + 1))
        assert error(discarded) <= least + 1e-9 * max(times_s) ** 2


@pytest.mark.parametrize(("kept", "least", "most"), [(0.0, 0.85, 1.15), (0.9, 2.5, 5.0)])
def test_the_error_of_independent_times_is_the_usual_one_and_of_others_greater(
    kept: float, least: float, most: float
) -> None:
    generator, level, times_s = random.Random(1), 0.0, []
    for _ in range(2000):
        level = kept * level + generator.gauss(0, 0.1)
        times_s.append(5 + level)
    usual = statistics.stdev(times_s) / math.sqrt(2000) / statistics.fmean(times_s)
    assert least < relative_error(times_s) / usual < most


@given(TIMES, st.floats(0.01, 100))
def test_it_is_never_less_and_the_unit_does_not_matter(times_s: list[float], unit: float) -> None:
    n = len(times_s)
    if n >= 2:
        usual = statistics.stdev(times_s) / math.sqrt(n) / statistics.fmean(times_s)
        assert relative_error(times_s) >= usual * (1 - 1e-6) - 1e-12
    scaled = relative_error([unit * time_s for time_s in times_s])
    assert scaled == pytest.approx(relative_error(times_s), rel=1e-6, abs=1e-12)


def test_a_window_ends_once_it_is_good_enough() -> None:
    quiet = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
    assert enough(estimate(quiet), 0.01, 100)
    assert not enough(estimate(quiet), 0.0001, 100)
    assert enough(estimate(quiet), 0.0001, 5)
    assert not enough(estimate(quiet[:LEAST]), 0.01, 100)


def test_a_window_holds_two_periods_of_a_loader() -> None:
    bursts = [0.06] * 8
    assert enough(estimate(bursts), 0.01, 100)
    assert not enough(estimate(bursts), 0.01, 100, period=8)
    assert enough(estimate([*bursts, *bursts, 0.06]), 0.01, 100, period=8)


def test_what_is_far_behind_is_measured_roughly() -> None:
    noisy = estimate([1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 1.0, 1.2])
    assert 0.04 < noisy.pace_se < DISTANCE_SHARE * math.log(2)
    ratios = (None, 0.9, 1.05, 2.0)
    assert [enough(noisy, 0.01, 100, ratio=each) for each in ratios] == [False] * 3 + [True]


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=5 * MOST))
def test_very_many_iterations_are_analysed_as_means_of_batches(times_s: list[float]) -> None:
    found = estimate(times_s)
    each = found.block_length
    assert len(found.times_s) <= MOST and (each == 1 or len(times_s) > (each - 1) * MOST)
    assert found.discarded + found.iterations == len(times_s) - len(times_s) % each
    own = times_s[found.discarded : found.discarded + found.iterations]
    assert found.took_s == pytest.approx(math.fsum(own))
    assert found.pace_s == pytest.approx(math.fsum(own) / len(own))


# --- the stopper of a launch --------------------------------------------------------------

MODEL = FullRunModel(100, 3.0, incumbent_s=10.3)
RACE = ProjectionStopper(Limit(15.0), Noise(interval=10), 100)


def window(*times_s: float) -> Estimate:
    return Estimate(1, times_s)


def test_what_cannot_win_is_stopped_and_projected_by_its_pace() -> None:
    found = stopped(window(*[0.6] * LEAST), MODEL, RACE)
    assert found is not None
    assert found.projection_s == pytest.approx(0.6 * 103)
    assert stopped(window(0.6), MODEL, RACE) is None, "one is too few"
    assert stopped(window(0.6, 0.6), MODEL, RACE) is not None
    assert stopped(window(*[0.04] * LEAST), FullRunModel(10**5), RACE) is None, "too short"
    assert stopped(window(0.1, 0.11, 0.12, 0.1, 0.1), MODEL, RACE) is None, "it may win"
    assert stopped(window(*[9.0] * 9), MODEL, None) is None
    assert stopped(window(*[0.1] * 5), MODEL, TimeLimitStopper(1.0)) is None
    assert stopped(window(*[0.5] * 5), MODEL, TimeLimitStopper(1.0)) is not None


@pytest.mark.parametrize("once", range(4))
def test_one_slow_iteration_of_a_few_is_an_accident(once: int) -> None:
    """Something that happens once, as a compiler: the others show the pace."""
    times_s = [0.1] * 4
    times_s[once] = 9.0
    for told in range(max(2, once + 1), 5):
        assert stopped(window(*times_s[:told]), MODEL, RACE) is None


def test_where_it_was_going_is_known_as_well_as_its_iterations_agree() -> None:
    alike, apart = (stopped(window(*[0.6, each] * 3), MODEL, RACE) for each in (0.6, 1.2))
    assert alike is not None and apart is not None
    assert alike.log_sd < apart.log_sd


def test_means_of_very_many_are_judged_by_all_their_iterations() -> None:
    known = FullRunModel(10**5, 3.0)
    race = ProjectionStopper(Limit(0.15), Noise(interval=10), 10**5)
    assert stopped(Estimate(0, (4e-6,) * 500, block_length=16), known, race) is None, (
        "they took 0.03 s"
    )
    assert stopped(Estimate(0, (4e-6,) * 500, block_length=256), known, race) is None, "a whole run"
    found = stopped(Estimate(0, (4e-6,) * 500, block_length=128), known, race)
    assert found is not None
    assert found.projection_s == pytest.approx(4e-6 * (10**5 + 3), rel=0.01)


@given(st.floats(0.05, 0.4), st.integers(5, 20))
def test_a_steady_pace_is_stopped_as_a_whole_run_is(pace_s: float, iterations: int) -> None:
    """The same setting under both objectives: the verdict is the same."""
    race = ProjectionStopper(Limit(0.15), RACE.noise, 100)
    seen = window(*[pace_s] * iterations)
    found = stopped(seen, FullRunModel(100, 3.0, steady=True), stopper_by("steady", race, 100))
    whole = ProjectionStopper(Limit(0.15 * 100), RACE.noise, 100)
    same = stopped(seen, FullRunModel(100, 3.0), whole)
    assert (found is None) == (same is None)
    if found is not None and same is not None:
        assert found.projection_s == pytest.approx(same.projection_s / 100)


# --- what the cold runs say of a full run, and a window's figure by it ------------------------

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
