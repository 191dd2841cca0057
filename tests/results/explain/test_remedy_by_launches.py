"""A knob is named only if the study's own launches do not contradict it."""

from __future__ import annotations

import pytest

from tests.study_samples import launched, setting, stopped
from tuner.model import Purpose
from tuner.results.explain.cause import Remedy
from tuner.results.explain.explained_runs import _by_launches

ONE = setting(omp_threads=1, iterator_workers=1, communicator="naive")
FOUR = setting(omp_threads=4, iterator_workers=1, communicator="naive")


@pytest.mark.parametrize(
    ("with_one_s", "remedy", "named"),
    [
        (5.0, Remedy("omp_threads", "lower"), None),
        (2.0, Remedy("omp_threads", "lower"), Remedy("omp_threads", "lower")),
        (5.0, Remedy("iterator_workers", "higher"), Remedy("iterator_workers", "higher")),
        (1.6, None, Remedy("omp_threads", "another", gain=3.125)),
        (5.0, None, None),
    ],
)
def test_launches_that_differ_in_one_knob_decide(
    with_one_s: float, remedy: Remedy | None, named: Remedy | None
) -> None:
    """With four threads a run takes 5 s."""
    data = launched([(Purpose.GUESS, FOUR, 5.0), (Purpose.SEARCH, ONE, with_one_s)])
    assert _by_launches(remedy, FOUR, data) == named


def test_runs_that_overlap_name_no_knob() -> None:
    times_s = {FOUR: (5.0, 5.0, 3.0), ONE: (3.5, 3.5, 3.5)}
    data = launched([(Purpose.SEARCH, each, s) for each in times_s for s in times_s[each]])
    assert _by_launches(None, FOUR, data) is None


def test_a_stopped_launch_shows_what_helps_at_least_and_contradicts_nothing() -> None:
    data = launched([(Purpose.GUESS, FOUR, stopped(4.0, 9.0)), (Purpose.SEARCH, ONE, 2.0)])
    assert _by_launches(None, FOUR, data) == Remedy("omp_threads", "another", gain=2.0)
    lower = Remedy("omp_threads", "lower")
    assert _by_launches(lower, FOUR, data) == lower
