"""Where a study stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import SPEC, ran, surface
from tests.study_surface import record as launch
from tuner.model import (
    Effect,
    Ending,
    Finished,
    LaunchRecord,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Window,
)
from tuner.study.history import History

POINTS = [
    Setting.of({"omp_threads": threads, "iterator_workers": workers})
    for threads in range(1, 5)
    for workers in range(1, 4)
]


def record(
    number: int,
    setting: Setting,
    *,
    purpose: Purpose = Purpose.SEARCH,
    ending: Ending | None = None,
    effects: tuple[Effect, ...] = (),
) -> LaunchRecord:
    outcome = ran(surface(setting) if ending is None else ending, effects=effects)
    return launch(number, setting, purpose, outcome)


purposes = st.sampled_from([p for p in Purpose if p is not Purpose.RECORD])


@given(st.lists(purposes, max_size=12))
def test_what_was_searched_and_what_proves_are_all_that_counts(made: list[Purpose]) -> None:
    records = [record(n, POINTS[n % 12], purpose=purpose) for n, purpose in enumerate(made, 1)]
    history = History.judged(SPEC, tuple(records))
    assert (*history.searched, *history.confirming) == history.valid
    assert all(r.purpose is Purpose.CONFIRM for r in history.confirming)
    assert not history.searched or history.searched[-1].purpose is not Purpose.CONFIRM


def cold(excess_s: float) -> Outcome:
    """A launch of 20 iterations of 0.1 s, and so much before them."""
    log = tuple(Progress(n, excess_s + 0.1 * n) for n in range(1, 21))
    return Outcome(Finished(log[-1].elapsed_s, 20), 9.0, 0, log)


def test_what_the_proof_shows_of_windows_does_not_change_the_search() -> None:
    setting = Setting.of({"omp_threads": 1, "iterator_workers": 1})
    window = Window(1, ("omp_threads",), 0.0, 0.1, 1, 9, 0.1, 0.01, 3.0)
    live = Outcome(Finished(2.2, 20), 1.0, None, window=window)
    before = [
        launch(1, setting, Purpose.WARM_UP, cold(0.2)),
        launch(2, setting, Purpose.GUESS, live),
    ]
    then = History.judged(SPEC, tuple(before))
    now = History.judged(SPEC, (*before, launch(3, setting, Purpose.CONFIRM, cold(1.0))))
    assert [r.outcome.samples for r in now.searched] == [r.outcome.samples for r in then.searched]
    assert now.records[1].outcome.samples != then.records[1].outcome.samples
