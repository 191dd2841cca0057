"""The proof: what is launched in turn, when it ends, what it comes to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.study_surface import (
    BEST,
    CONFIRMED,
    CRASH,
    ITERATIONS,
    FakeRunner,
    events_of,
    ran,
    record,
    study_in,
    surface,
)
from tuner.launch.clocks import once_compared
from tuner.model import (
    BASELINE,
    Compare,
    Conclusion,
    Ending,
    Failed,
    FailureKind,
    ObjectiveSpec,
    Observation,
    Outcome,
    Purpose,
    Result,
    Setting,
    SideBySide,
    Stopped,
    StudySpec,
    StudyState,
)
from tuner.model.outcome import PACE
from tuner.study import pairing
from tuner.study.confirmation import Confirmation, confirm_s, confirmation, search_s
from tuner.study.events import Event, Note
from tuner.study.findings import build
from tuner.study.history import History
from tuner.study.pairing import typical

#: Its comparison is made side by side.
PAIRED = replace(CONFIRMED, compare="auto")

GUESS = Setting.of({"omp_threads": 2, "iterator_workers": 2})

#: What comes next of each setting: seconds, or a failure.
Times = dict[Setting, Callable[[], float | Ending]]


def always(value: float | Ending) -> Callable[[], float | Ending]:
    return lambda: value


def first(*values: float | Ending, then: float | Ending) -> Callable[[], float | Ending]:
    left = iter(values)
    return lambda: next(left, then)


def history_of(
    *made: tuple[Purpose, Setting, float | Ending], spec: StudySpec = CONFIRMED
) -> History:
    launches = enumerate(made, start=1)
    return History.judged(
        spec, tuple(record(n, s, purpose, ran(v)) for n, (purpose, s, v) in launches)
    )


def searched(
    default: float | Ending,
    best_s: float | Ending = 1.0,
    spec: StudySpec = CONFIRMED,
    guess_s: float = 1.5,
) -> History:
    """A search that found `BEST`."""
    return history_of(
        (Purpose.GUESS, GUESS, guess_s),
        (Purpose.BASELINE, BASELINE, default),
        (Purpose.SEARCH, BEST, best_s),
        spec=spec,
    )


def proved(history: History, times: Times) -> History:
    """The confirmation of `BEST` to its end."""
    clock = history.spec.objective.clock
    while (state := confirmation(history, BEST)).next:
        assert len(history.confirming) < 100, "it does not end"
        numbers = [len(history.records) + place for place in (1, 2)][: len(state.next)]
        usual = [typical(history, s) for s in (state.other_side(state.next[0]), BEST) if s]
        judge = usual[0] and once_compared(clock, ITERATIONS, usual[0])
        for number, setting in zip(numbers, state.next, strict=True):
            stopper = None if len(numbers) == 2 and setting == BEST else judge
            outcome = ran(times[setting](), stopper=stopper)
            if len(numbers) == 2:
                outcome = replace(outcome, side_by_side=SideBySide(sum(numbers) - number))
            history = history.add(record(number, setting, Purpose.CONFIRM, outcome))
    return history


def after(history: History, times: Times) -> Confirmation:
    return confirmation(proved(history, times), BEST)


def sides(history: History) -> str:
    letters = {BEST: "b", BASELINE: "d", GUESS: "g"}
    return "".join(letters[made.setting] for made in history.confirming)


def found(history: History) -> Result:
    return build(history, "tune.db", StudyState.FINISHED, "", BEST)


# --- what it comes to --------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "order"), [(PAIRED, "bddb"), (CONFIRMED, "dbbddb")])
def test_of_far_slower_defaults_the_pace_is_enough(spec: StudySpec, order: str) -> None:
    history = proved(searched(8.0, spec=spec), {BEST: always(1.0), BASELINE: always(8.0)})
    state = confirmation(history, BEST)
    assert sides(history) == order
    defaults = [m.outcome.ending for m in history.confirming if m.setting.is_baseline]
    assert all(isinstance(ending, Stopped) and ending.rule == PACE for ending in defaults)
    assert state.conclusion is Conclusion.FASTER and state.finding is not None
    assert state.finding.is_side_by_side == (spec is PAIRED)
    assert state.finding.high is not None and state.finding.low < 8.0 < state.finding.high


@pytest.mark.parametrize("compare", ["auto", "in-turn"])
def test_if_no_pace_shows_only_a_lower_end_is_claimed(compare: Compare) -> None:
    spec = replace(CONFIRMED, objective=ObjectiveSpec(kind="wall"), compare=compare)
    history = proved(searched(9.0, spec=spec), {BEST: always(1.0), BASELINE: always(9.0)})
    state = confirmation(history, BEST)
    assert state.conclusion is Conclusion.FASTER and state.finding is not None
    assert state.finding.at_least and 3.0 < state.finding.low < 9.0


def test_two_are_launched_side_by_side_unless_something_speaks_against_it() -> None:
    def of(outcome: Outcome, **fields: Any) -> Confirmation:
        history = searched(2.0, spec=replace(PAIRED, **fields))
        records = [
            replace(r, outcome=replace(outcome, ending=r.outcome.ending)) for r in history.records
        ]
        return confirmation(History.judged(history.spec, records), BEST)

    plain = ran(1.0)
    assert of(plain).next == (BEST, BASELINE)
    prepared = of(plain, prepare=("rm", "-rf", "cache"))
    assert prepared.next == (BASELINE,) and "--prepare" in prepared.why_in_turn
    shared = replace(plain, observation=Observation(written=("/home/me/model.pt",)))
    assert of(shared).why_in_turn == "both write /home/me/model.pt"
    history = searched(2.0, spec=PAIRED)
    written = [replace(plain, observation=shared.observation)] * 2 + [plain]  # of guess, default
    records = [replace(r, outcome=o) for r, o in zip(history.records, written, strict=True)]
    judged = History.judged(history.spec, records)
    assert "model.pt" in confirmation(judged, BEST).why_in_turn, "as others do, it may, too"
    large = replace(plain, observation=Observation(memory_bytes=PAIRED.machine.memory_bytes))
    assert "of memory" in of(large).why_in_turn
    assert of(large, compare="side-by-side").next == (BEST, BASELINE), "the user knows better"
    chosen = of(plain, compare="in-turn")
    assert (chosen.next, chosen.why_in_turn) == ((BASELINE,), "")


def test_launches_that_are_over_after_a_few_slices_prove_less() -> None:
    def pairs_needed(slices: int) -> int:
        history = searched(1.12, spec=PAIRED)
        while (state := confirmation(history, BEST)).next:
            number = len(history.records) + 1
            for n, other, setting in zip(
                (number, number + 1), (number + 1, number), state.next, strict=True
            ):
                spans = tuple((float(place), place + 0.25) for place in range(slices))
                outcome = ran(1.0 if setting == BEST else 1.12)
                outcome = replace(outcome, side_by_side=SideBySide(other, spans))
                history = history.add(record(n, setting, Purpose.CONFIRM, outcome))
        assert state.finding is not None and state.finding.is_side_by_side
        return state.finding.pairs

    assert pairs_needed(10) < pairs_needed(3)


def beside(history: History, outcomes: Sequence[Outcome]) -> History:
    """One more pair of the best and the baseline."""
    number = len(history.records) + 1
    pair = [
        record(n, setting, Purpose.CONFIRM, outcome)
        for n, setting, outcome in zip(
            (number, number + 1), (BEST, BASELINE), outcomes, strict=True
        )
    ]
    pair = pairing.judged(pair, [history, history])
    return history.with_records((*history.records, *pair))


def test_a_pair_that_was_broken_off_is_launched_again() -> None:
    history = searched(2.0, spec=PAIRED)
    ended = ran(Failed(FailureKind.INTERRUPTED, "ended on request before it was done"))
    number = len(history.records) + 1
    outcomes = [replace(ended, side_by_side=SideBySide(n)) for n in (number + 1, number)]
    state = confirmation(beside(history, outcomes), BEST)
    assert (state.next, state.why_in_turn) == ((BEST, BASELINE), "")


def test_two_that_wait_for_something_else_are_launched_in_turn() -> None:
    def why_in_turn(looks: tuple[bool | None, ...], compare: Compare = "auto") -> str:
        history = searched(2.0, spec=replace(PAIRED, compare=compare))
        number = len(history.records) + 1
        outcomes = [
            replace(ran(1.0), side_by_side=SideBySide(number + 1, at_work=(True,) * 10)),
            replace(ran(2.0), side_by_side=SideBySide(number, at_work=looks)),
        ]
        return confirmation(beside(history, outcomes), BEST).why_in_turn

    assert "ran in 9 of 10 looks" in why_in_turn((False,) * 9 + (True, None))
    assert why_in_turn((False,) * 2 + (True,) * 8) == ""
    assert why_in_turn((False,) * 9 + (True, None), "side-by-side") == "", "the user knows better"


def test_figures_that_pauses_distort_are_compared_in_turn() -> None:
    """A median of steps: a short step fits between two pauses, a long one does not."""
    figure = ObjectiveSpec(kind="pattern", pattern="(.)", unit="s")

    def why_in_turn(best_s: float, baseline_s: float) -> str:
        history = searched(3.0, spec=replace(PAIRED, objective=figure))
        number = len(history.records) + 1
        outcomes = [
            replace(ran(cost), wall_s=wall_s, side_by_side=SideBySide(other))
            for cost, wall_s, other in (
                (best_s, ran(1.0).wall_s, number + 1),
                (baseline_s, ran(3.0).wall_s, number),
            )
        ]
        return confirmation(beside(history, outcomes), BEST).why_in_turn

    assert why_in_turn(0.9, 2.9) == ""
    assert "medians or minima" in why_in_turn(0.62, 4.9)
    assert why_in_turn(0.9, 0.9 * ran(3.0).wall_s / ran(1.0).wall_s) == "", "alone they were off"


def test_once_a_launch_has_failed_beside_another_one_they_are_launched_in_turn() -> None:
    history = searched(2.0, spec=PAIRED)
    number = len(history.records) + 1
    busy = Failed(FailureKind.CRASHED, "address already in use")
    ended = Failed(FailureKind.INTERRUPTED, "ended, as the launch beside it had failed")
    history = beside(
        history,
        [
            replace(ran(ended), side_by_side=SideBySide(number + 1)),
            replace(ran(busy), side_by_side=SideBySide(number)),
        ],
    )
    state = confirmation(history, BEST)
    assert state.next == (BASELINE,)
    assert state.why_in_turn == f"launch {number + 1} failed beside another one: {busy.reason}"
    history = proved(history, {BEST: always(1.0), BASELINE: always(2.0)})
    state = confirmation(history, BEST)
    assert state.conclusion is Conclusion.FASTER and state.failure is None
    assert state.finding is not None and not state.finding.is_side_by_side


def test_a_pair_of_which_one_was_lost_says_nothing() -> None:
    history = proved(searched(2.0, spec=PAIRED), {BEST: always(1.0), BASELINE: always(2.0)})
    left = history.with_records(history.records[:-1])
    assert len(left.confirming) == len(history.confirming) - 1
    assert confirmation(left, BEST).next, "it has to be made again"


def test_what_is_left_is_told_by_what_both_sides_are_known_to_take() -> None:
    """A launch takes a second beside its figure; of the defaults the pace is enough."""
    history = searched(2.0)
    left_s = confirmation(history, BEST).left_s
    assert left_s == pytest.approx(3 * ((1.0 + 1.0) + (1.0 + 1.0)), rel=0.01)
    assert found(history).confirm_left_s == left_s
    history = proved(history, {BEST: always(1.0), BASELINE: always(2.0)})
    assert confirmation(history, BEST).left_s == 0.0


def test_what_turns_out_slower_than_the_defaults_is_not_handed_over() -> None:
    history = proved(searched(1.02), {BEST: always(1.0), BASELINE: always(0.8)})
    state = confirmation(history, BEST)
    assert state.finding is not None and state.finding.claim == "slower"
    assert (state.conclusion, state.export(history)) == (Conclusion.NO_GAIN, BASELINE)


def test_defaults_that_look_faster_are_launched_in_turn_with_the_best() -> None:
    history = proved(searched(0.5), {BEST: always(1.0), BASELINE: always(2.0)})
    state = confirmation(history, BEST)
    assert (state.conclusion, state.export(history)) == (Conclusion.FASTER, BEST)
    state = after(searched(0.5), {BEST: always(1.0), BASELINE: always(0.5)})
    assert state.finding is not None and state.finding.claim == "slower"
    assert state.conclusion is Conclusion.NO_GAIN


def test_what_was_stopped_on_its_way_is_ruled_out_without_a_launch() -> None:
    stopped = Stopped(0.6, 2.0, 1.8, 2.2, 0.1, "drift")
    state = confirmation(searched(0.5, stopped), BEST)
    assert not state.next and state.finding is None
    assert state.conclusion is Conclusion.NO_GAIN


def test_if_the_search_calls_the_defaults_best_the_fastest_other_is_launched_in_turn() -> None:
    """The defaults may come to the same as a setting."""
    history = History.judged(
        CONFIRMED,
        [
            record(1, GUESS, Purpose.GUESS, ran(1.5)),
            record(2, BEST, Purpose.BASELINE, ran(1.0)),
        ],
        baseline=BEST,
    )
    state = confirmation(history, BEST)
    assert (state.best, state.reference) == (GUESS, BEST)
    assert state.next == (BEST,)


def test_a_best_that_cannot_be_told_from_the_defaults_is_inconclusive_until_more_is_asked() -> None:
    noisy: Times = {BEST: first(*[1.0, 1.2, 0.9] * 2, then=1.0), BASELINE: always(1.04)}
    history = proved(searched(1.04), noisy)
    state = confirmation(history, BEST)
    assert (state.conclusion, state.export(history)) == (Conclusion.INCONCLUSIVE, BASELINE)
    assert sides(history) == "dbbd" * 5
    more = replace(history, spec=replace(CONFIRMED, confirm="more"))
    history = proved(more, {BEST: always(1.0), BASELINE: always(1.1)})
    assert confirmation(history, BEST).conclusion is Conclusion.FASTER


@pytest.mark.parametrize("how", ["more", "exact"])
@pytest.mark.parametrize("launches", [0, 1, 3])
def test_what_was_proven_stands_until_more_is_proven(
    how: Literal["more", "exact"], launches: int
) -> None:
    """`--confirm more` was interrupted after so many launches."""
    steady: Times = {BEST: always(1.0), BASELINE: always(1.5)}
    proven = found(proved(searched(1.5), steady))
    assert proven.conclusion is Conclusion.FASTER
    history = proved(searched(1.5), steady)
    for number in range(launches):
        setting = (BASELINE, BEST, BEST)[number]
        outcome = ran((0.9 if setting == BEST else 1.9) + number)  # the noise has come
        made = record(len(history.records) + 1, setting, Purpose.CONFIRM, outcome)
        history = history.add(made)
    more = replace(history, spec=replace(CONFIRMED, confirm=how))
    assert confirmation(more, BEST).next
    result = build(more, "tune.db", StudyState.INTERRUPTED, "", BEST)
    assert (result.conclusion, result.export) == (Conclusion.FASTER, BEST)
    assert result.finding is not None and proven.finding is not None
    assert result.finding.pairs >= proven.finding.pairs


def test_exact_confirms_by_ranks_alone() -> None:
    exact = replace(CONFIRMED, confirm="exact")
    far = proved(searched(8.0, spec=exact), {BEST: always(1.0), BASELINE: always(8.0)})
    assert sides(far) == "dbbd" * 3
    near = proved(searched(2.0, spec=exact), {BEST: always(1.0), BASELINE: always(2.0)})
    assert sides(near) == "dbbd" * 3


def test_failing_defaults_are_compared_as_the_first_guess_that_worked() -> None:
    history = proved(searched(CRASH), {BEST: always(1.0), GUESS: always(1.5)})
    state = confirmation(history, BEST)
    assert sides(history) == "gbbggb"
    assert (state.reference, state.failure) == (GUESS, CRASH)
    assert (state.conclusion, state.export(history)) == (Conclusion.BASELINE_FAILS, BEST)
    assert state.finding is not None and state.finding.claim == "faster"
    result = found(history)
    assert result.reference is not None and result.reference.setting == GUESS


def test_the_only_setting_that_works_needs_no_proof() -> None:
    history = history_of((Purpose.GUESS, BEST, 1.0), (Purpose.BASELINE, BASELINE, CRASH))
    state = confirmation(history, BEST)
    assert not state.next and state.finding is None
    assert (state.conclusion, state.export(history)) == (Conclusion.BASELINE_FAILS, BEST)


# --- failures in turn --------------------------------------------------------------------


def test_one_failure_is_launched_again() -> None:
    history = proved(
        searched(2.0), {BEST: first(CRASH, then=1.0), BASELINE: first(CRASH, then=2.0)}
    )
    state = confirmation(history, BEST)
    assert sides(history) == "ddbbbddb"
    assert state.conclusion is Conclusion.FASTER and state.best_failed is None


@pytest.mark.parametrize("works", [0, 1])
def test_a_best_that_fails_twice_is_not_handed_over(works: int) -> None:
    times: Times = {BEST: first(*[1.0] * works, then=CRASH), BASELINE: always(2.0)}
    history = proved(searched(2.0), times)
    state = confirmation(history, BEST)
    assert state.best_failed == CRASH and state.finding is None
    assert (state.conclusion, state.export(history)) == (Conclusion.NO_GAIN, BASELINE)
    assert found(history).export == BASELINE


def test_before_the_best_is_said_to_fail_another_setting_shows_that_the_program_works() -> None:
    before = searched(2.0).records
    failed = [(Purpose.CONFIRM, BEST, ran(CRASH))] * 2
    history = searched(2.0).with_records(
        (*before, *(record(n, s, p, o) for n, (p, s, o) in enumerate(failed, len(before) + 1)))
    )
    assert history.to_see_whether_it_works(is_end=True) == GUESS
    assert history.to_see_whether_it_works(is_end=False) is None
    number = len(history.records) + 1
    works = history.add(record(number, GUESS, Purpose.CONFIRM, ran(1.5)))
    assert works.to_see_whether_it_works(is_end=True) is None and not works.no_longer_works()
    broken = history.add(record(number, GUESS, Purpose.CONFIRM, ran(CRASH)))
    assert len(broken.no_longer_works()) == 3


@pytest.mark.parametrize("works", [0, 1])
def test_defaults_that_fail_twice_in_turn_are_failing_defaults(works: int) -> None:
    times: Times = {
        BEST: always(1.0),
        BASELINE: first(*[2.0] * works, then=CRASH),
        GUESS: always(1.5),
    }
    state = after(searched(2.0), times)
    assert (state.conclusion, state.reference) == (Conclusion.BASELINE_FAILS, GUESS)
    assert state.finding is not None and state.finding.claim == "faster"
    assert state.finding.ratio == pytest.approx(1.5)


# --- what decides ------------------------------------------------------------------------


def test_the_search_and_the_proof_take_all_the_time_there_is() -> None:
    history = proved(searched(2.0), {BEST: always(1.0), BASELINE: always(2.0)})
    both_s = sum(made.outcome.wall_s for made in history.records)
    assert search_s(history.records) + confirm_s(history.records) == pytest.approx(both_s)
    assert search_s(history.records) == pytest.approx(2.5 + 3.0 + 2.0)
    assert (found(history).search_s, found(history).confirm_s) == (
        search_s(history.records),
        confirm_s(history.records),
    )


# --- laws --------------------------------------------------------------------------------

values = st.lists(st.one_of(st.floats(0.5, 20.0), st.just(CRASH)), min_size=1, max_size=8)


@settings(deadline=None)
@given(st.one_of(st.floats(0.5, 20.0), st.just(CRASH)), st.tuples(values, values, values))
def test_it_always_ends_and_hands_over_something_that_is_there(
    default: float | Failed, times: tuple[list[float | Failed], ...]
) -> None:
    launches = (itertools.cycle(each).__next__ for each in times)
    history = proved(searched(default), dict(zip((BEST, BASELINE, GUESS), launches, strict=True)))
    state = confirmation(history, BEST)
    export = state.export(history)
    assert export in {BEST, BASELINE, GUESS}
    assert state.conclusion is not None
    assert (export == BASELINE) == state.conclusion.keeps_baseline
    if state.conclusion is Conclusion.FASTER:
        assert state.finding is not None and state.finding.low > 1.0 and export == BEST


# --- what is told of its length ------------------------------------------------------------


def test_a_comparison_far_beyond_the_budget_is_said_with_the_option_that_ends_it(
    tmp_path: Path,
) -> None:
    """The defaults take 40 s, so one pair of launches exceeds the budget by more than half."""
    for budget_s, is_said in ((20.0, True), (1000.0, False)):
        events: list[Event] = []
        study_in(
            tmp_path / str(budget_s),
            FakeRunner(lambda setting: 20 * surface(setting)),
            replace(CONFIRMED, budget_s=budget_s),
            on_event=events.append,
        )
        said = [note.text for note in events_of(Note, events) if "--confirm none" in note.text]
        assert len(said) == is_said, said
        if is_said:
            assert said[0].startswith("the comparison with your defaults takes about ")
