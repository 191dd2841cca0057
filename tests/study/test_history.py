"""Where a study stands."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import CRASH, SPEC, overridden, ran, surface
from tests.study_surface import record as launch
from tuner.model import (
    BASELINE,
    Choice,
    Effect,
    Ending,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    LaunchRecord,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
    Window,
)
from tuner.study.history import History, changes

STOPPED = Stopped(1.0, 3.0, 2.5, 3.5, 0.12, "drift")
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


def after(*settings: Setting, spec: StudySpec = SPEC) -> History:
    """A history after the baseline and these trials."""
    first = record(1, BASELINE, purpose=Purpose.BASELINE)
    return History.judged(spec, (first, *(record(n, s) for n, s in enumerate(settings, start=2))))


def test_the_proof_is_what_was_launched_since_the_last_search() -> None:
    warm_up = record(1, POINTS[0], purpose=Purpose.WARM_UP)
    search = record(2, POINTS[0])
    proof = [record(n, POINTS[0], purpose=Purpose.CONFIRM) for n in (3, 5)]
    again = record(4, POINTS[0], purpose=Purpose.WARM_UP)
    broken_off = record(
        6, POINTS[0], purpose=Purpose.CONFIRM, ending=Failed(FailureKind.INTERRUPTED, "")
    )
    history = History.judged(SPEC, (warm_up, search, proof[0], again, proof[1], broken_off))
    assert history.confirming == tuple(proof) and history.searched == (search,)
    more = history.with_records((*history.records, record(7, POINTS[1])))
    assert more.confirming == () and more.searched == more.valid
    assert len(more.valid) == 4


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


def test_stopped_and_failed_trials_are_counted_apart() -> None:
    history = History.judged(
        SPEC,
        (
            record(1, POINTS[0], ending=CRASH),
            record(2, POINTS[1], ending=STOPPED),
            record(3, POINTS[2], ending=STOPPED),
            record(4, POINTS[2], purpose=Purpose.REPEAT),
            record(5, POINTS[3], ending=CRASH),
            record(6, POINTS[3], ending=STOPPED),
            record(7, POINTS[4]),
        ),
    )
    assert (history.trials, history.failed, history.stopped) == (5, 1, 2)
    assert history.most_trials == 6


def test_why_it_is_exhausted() -> None:
    both = [*overridden("iterator_workers", 2)(POINTS[0]), *overridden("omp_threads", 4)(POINTS[0])]
    none = History.judged(SPEC, (record(2, POINTS[0], effects=tuple(both)),))
    assert none.exhausted() == "no knob is left to tune"
    one = after(POINTS[0], spec=replace(SPEC, fixed=POINTS[0]))
    assert one.exhausted() == "the only setting of the space was measured"
    domains = {"omp_threads": IntRange(1, 2), "iterator_workers": IntRange(1, 1)}
    spec = replace(SPEC, knobs=tuple(replace(k, domain=domains[k.name]) for k in SPEC.knobs))
    made = [Setting.of({"omp_threads": n, "iterator_workers": 1}) for n in (1, 2)]
    assert after(*made, spec=spec).exhausted() == "both settings of the space were measured"
    for ending in (CRASH, STOPPED):
        history = after(made[0], spec=spec)
        tried = history.with_records((*history.records, record(3, made[1], ending=ending)))
        assert tried.exhausted() == "both settings of the space were tried"
    assert after(*POINTS).exhausted() == "all 12 settings of the space were measured"
    few = after(*POINTS[:3])
    assert few.exhausted() == "all settings that are not ruled out were tried"


def test_the_longest_launch_says_how_long_a_launch_is() -> None:
    first, second = record(1, BASELINE, purpose=Purpose.WARM_UP), record(2, POINTS[0])
    cut = Finished(0.1, 60)
    first = replace(first, outcome=replace(first.outcome, ending=cut))
    early = replace(record(3, POINTS[1]), outcome=first.outcome)
    assert History.judged(SPEC, (first,)).expected_iterations(BASELINE) == 60
    history = History.judged(SPEC, (first, second, early))
    assert history.expected_iterations(BASELINE) == 100
    assert [r.number for r in history.records if r.outcome.samples] == [2]


def test_what_changed_is_named() -> None:
    omp, workers = SPEC.knobs
    new = replace(
        SPEC,
        knobs=(replace(omp, domain=Choice((1, 2))), replace(omp, name="other")),
        fixed=Setting.of({"other": 1}),
        trial_limit_s=9.0,
        oversubscription=4.0,
        live="off",
        trials=99,
        budget_s=600.0,
        confirm="auto",
    )
    assert changes(SPEC, SPEC) == []
    assert changes(SPEC, new) == [
        "other is tuned too",
        "iterator_workers is not tuned any more",
        "omp_threads ranges over 1,2 instead of 1..4",
        "fixed: none -> other=1",
        "trial limit: none -> 9.0",
        "live: auto -> off",
        "oversubscription: none -> 4.0",
    ]
    assert workers.name == "iterator_workers"


def test_a_larger_batch_may_need_fewer_iterations() -> None:
    small, large = (Setting.of({"batch_size": size}) for size in (32, 64))
    launches = (
        record(1, small, ending=Finished(2.0, 201)),
        record(2, large, ending=Finished(1.0, 100)),
        record(3, large, ending=Finished(0.5, 50)),
        record(4, BASELINE, ending=Finished(0.5, 70)),
    )
    history = History.judged(SPEC, launches)
    expected = [history.expected_iterations(each) for each in (BASELINE, small, large)]
    assert expected == [70, 201, 100]
    first, second, early, fourth = history.records
    assert (first, second, fourth) == (*launches[:2], launches[3])
    assert isinstance(early.outcome.ending, Failed)
    assert "iteration 50, another launch reached 100" in early.outcome.ending.reason
