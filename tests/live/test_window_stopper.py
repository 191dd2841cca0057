"""When a window is left, by what it shows and by what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.clocks import stopper_by
from tuner.live.scale import SILENT, FixedOverhead, FullRunModel
from tuner.live.window_stopper import EXCESS, PATIENCE_S, WindowStopper
from tuner.search.stopper import Limit, Noise, ProjectionStopper, TimeLimitStopper

MODEL = FullRunModel(100, FixedOverhead(3.0), incumbent_s=10.3)
RACE = ProjectionStopper(Limit(15.0), Noise(interval=10), 100)
STOPPER = WindowStopper(RACE, MODEL, 0.1)


def test_means_of_very_many_are_judged_by_all_their_iterations() -> None:
    known = FullRunModel(10**5, FixedOverhead(3.0))
    brief = WindowStopper(ProjectionStopper(Limit(0.15), Noise(interval=10), 10**5), known, 1e-6)
    assert brief.by_times([4e-6] * 500, 0.02, each=16) is None, "they took 0.03 s"
    assert brief.by_times([4e-6] * 500, 0.6, each=256) is None, "a whole run was seen"
    stopped = brief.by_times([4e-6] * 500, 0.6, each=128)
    assert stopped is not None
    assert stopped.projection_s == pytest.approx(4e-6 * (10**5 + 3), rel=0.01)


def test_what_is_ruinous_after_two() -> None:
    stopped = STOPPER.by_times([0.6] * 2, 1.0)
    assert stopped is not None
    assert stopped.projection_s == pytest.approx(0.6 * 103), "by its pace"
    assert stopped.low_s == pytest.approx(0.6 * 2 * 104 / 6), "and for certain this"
    assert STOPPER.by_times([0.3] * 2, 1.0) is None, "a loader may be filling up again"
    assert STOPPER.by_times([0.6] * 1, 1.0) is None


@pytest.mark.parametrize("once", range(4))
def test_one_slow_iteration_of_a_few_is_an_accident(once: int) -> None:
    """Something that happens once, as a compiler: the others show the pace."""
    times_s = [0.1] * 4
    times_s[once] = 9.0
    for told in range(once + 1, 5):
        if told >= 2:
            assert STOPPER.by_times(times_s[:told], 9.5) is None


def test_where_it_was_going_is_known_as_well_as_its_iterations_agree() -> None:
    alike, apart = STOPPER.by_times([0.6, 0.6], 1.0), STOPPER.by_times([0.6, 0.9], 1.0)
    assert alike is not None and apart is not None
    assert (alike.log_sd, alike.low_s) == (0.15, apart.low_s)
    assert apart.log_sd > 0.3


def test_after_one_where_that_took_very_long() -> None:
    assert STOPPER.by_times([PATIENCE_S], 2 * PATIENCE_S) is not None
    assert STOPPER.by_times([5 * 0.1], 2 * PATIENCE_S) is None  # it may be slow for coming first
    assert STOPPER.by_times([], 2 * PATIENCE_S) is None


def test_what_may_win_goes_on() -> None:
    assert STOPPER.by_times([0.1, 0.11, 0.12], 1.0) is None
    assert WindowStopper(None, MODEL, 0.1).by_times([9.0] * 9, 99.0) is None


def test_one_that_does_not_end_is_given_time() -> None:
    allowed_s = PATIENCE_S + EXCESS * 3.0 * 0.1
    assert STOPPER.by_silence([], allowed_s + 1.0, 1) is None
    found = STOPPER.by_silence([], allowed_s + 4.0, 1)
    assert found is not None
    assert found.rule == SILENT, "no pace stands for it"
    assert STOPPER.by_silence([], allowed_s + 4.0, 100) is None  # many are told of at once


def test_what_is_known_is_not_judged_by_an_evaluation() -> None:
    assert STOPPER.by_silence([0.1, 0.1, 0.1], 99.0, 1) is None
    assert STOPPER.by_silence([0.1], 99.0, 1) is not None


@given(st.floats(0.05, 0.4), st.integers(5, 20))
def test_a_steady_pace_is_stopped_as_a_whole_run_is(pace_s: float, iterations: int) -> None:
    """The same setting under both objectives: the verdict is the same."""
    race = ProjectionStopper(Limit(0.15), RACE.noise, 100)
    judged = stopper_by("steady", race, 100)
    steady = WindowStopper(judged, FullRunModel(100, FixedOverhead(3.0), steady=True), 0.1)
    whole = WindowStopper(
        ProjectionStopper(Limit(0.15 * 100), RACE.noise, 100),
        FullRunModel(100, FixedOverhead(3.0)),
        0.1,
    )
    times_s = [pace_s] * iterations
    found, same = steady.by_times(times_s, 1.0), whole.by_times(times_s, 1.0)
    assert (found is None) == (same is None)
    if found is not None and same is not None:
        assert found.projection_s == pytest.approx(same.projection_s / 100)


def test_a_cut_holds_too() -> None:
    cut = WindowStopper(TimeLimitStopper(1.0), MODEL, 0.1)
    assert cut.by_times([0.1] * 5, 1.0) is None
    assert cut.by_times([0.5] * 5, 1.0) is not None
