"""The proof: what is launched in turn, when it ends, what it comes to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
    Window,
)
from tuner.model.outcome import PACE
from tuner.stats.pairs import SIDE_BY_SIDE
from tuner.stats.scaling import SpeedUp
from tuner.study import pairing
from tuner.study.confirmation import Confirmation, confirmation
from tuner.study.events import Event, Note
from tuner.study.findings import build
from tuner.study.history import History
from tuner.study.pairing import Pairs, typical

#: Its comparison is made side by side.
PAIRED = replace(CONFIRMED, compare="auto")

GUESS = Setting.of({"omp_threads": 2, "iterator_workers": 2})

INTERRUPTED = Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
BUSY = Failed(FailureKind.CRASHED, "address already in use")

#: What comes next of each setting: seconds, or a failure.
Times = dict[Setting, Callable[[], float | Ending]]


def always(value: float | Ending) -> Callable[[], float | Ending]:
    return lambda: value


def first(*values: float | Ending, then: float | Ending) -> Callable[[], float | Ending]:
    left = iter(values)
    return lambda: next(left, then)


def searched(default: float | Ending, spec: StudySpec = CONFIRMED, **seen: Any) -> History:
    """A search of three launches, of each of which the same was seen."""
    records = [
        record(1, GUESS, Purpose.GUESS, replace(ran(1.5), **seen)),
        record(2, BASELINE, Purpose.BASELINE, replace(ran(default), **seen)),
        record(3, BEST, Purpose.SEARCH, replace(ran(1.0), **seen)),
    ]
    return History.judged(spec, records)


def proved(history: History, times: Times) -> History:
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


def sides(history: History) -> str:
    letters = {BEST: "b", BASELINE: "d", GUESS: "g"}
    return "".join(letters[made.setting] for made in history.confirming)


def found(history: History) -> Result:
    return build(history, "tune.db", StudyState.FINISHED, "", BEST)


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


SHARED = Observation(written=("/home/me/model.pt",))
LARGE = Observation(memory_bytes=PAIRED.machine.memory_bytes)
ON_GPU = Observation(gpu_memory_share=0.45)


@pytest.mark.parametrize(
    ("observed", "spec", "step", "why"),
    [
        (Observation(), {}, (BEST, BASELINE), ""),
        (Observation(), {"prepare": ("rm", "-rf", "cache")}, (BASELINE,), "--prepare runs"),
        (SHARED, {}, (BASELINE,), "both write /home/me/model.pt"),
        (LARGE, {}, (BASELINE,), "both together need"),
        (ON_GPU, {}, (BASELINE,), "both together need more than 80 % of a GPU's memory"),
        (LARGE, {"compare": "side-by-side"}, (BEST, BASELINE), ""),  # the user knows better
        (Observation(), {"compare": "in-turn"}, (BASELINE,), ""),
    ],
)
def test_two_are_launched_side_by_side_unless_something_speaks_against_it(
    observed: Observation, spec: dict[str, Any], step: tuple[Setting, ...], why: str
) -> None:
    state = confirmation(searched(2.0, replace(PAIRED, **spec), observation=observed), BEST)
    assert state.next == step and state.why_in_turn.startswith(why)


WINDOW = Window(1, (), 0.0, 0.0, 0, 100, 0.01, 0.001, 1.0)


def test_the_windows_of_a_job_do_not_write_into_each_others_files() -> None:
    history = searched(2.0, spec=PAIRED)
    records = [
        r
        if r.setting.is_baseline
        else replace(r, outcome=replace(r.outcome, observation=SHARED, window=WINDOW))
        for r in history.records
    ]
    assert confirmation(History.judged(PAIRED, records), BEST).next == (BEST, BASELINE)


def after_a_pair(
    best: Outcome, baseline: Outcome, spec: StudySpec = PAIRED, default: float = 2.0
) -> Confirmation:
    """Where the comparison stands after a first pair, of launches 4 and 5."""
    history = searched(default, spec=spec)
    pair = [
        record(n, setting, Purpose.CONFIRM, replace(outcome, side_by_side=together))
        for n, setting, outcome, together in (
            (4, BEST, best, best.side_by_side or SideBySide(5)),
            (5, BASELINE, baseline, baseline.side_by_side or SideBySide(4)),
        )
    ]
    pair = pairing.check_pair(pair, [history, history])
    return confirmation(history.with_records((*history.records, *pair)), BEST)


FIGURE = replace(PAIRED, objective=ObjectiveSpec(kind="pattern", pattern="(.)", unit="s"))


def looked_at(seconds: float, other: int, looks: int, idle: int, long_idle: int = 0) -> Outcome:
    """A launch that was seen to wait."""
    pair = SideBySide(other, looks=looks, idle_looks=idle, long_idle_looks=long_idle)
    return replace(ran(seconds), side_by_side=pair)


def printed(figure: float, seconds: float) -> Outcome:
    """A launch that ran for so long, and printed a figure of its own."""
    return replace(ran(figure), wall_s=ran(seconds).wall_s)


@pytest.mark.parametrize(
    ("best", "baseline", "spec", "why"),
    [
        (ran(INTERRUPTED), ran(INTERRUPTED), PAIRED, ""),
        (ran(INTERRUPTED), ran(BUSY), PAIRED, "launch 5 failed beside another one: address"),
        (looked_at(1.0, 5, 10, 0), looked_at(2.0, 4, 10, 9), PAIRED, "nothing of launch 5 ran"),
        (ran(1.0), looked_at(2.0, 4, 9, 9), PAIRED, "nothing of launch 5 ran in 9 of 9 looks"),
        (
            looked_at(1.0, 5, 30, 1),
            looked_at(2.0, 4, 30, 8),
            PAIRED,
            "nothing of launch 5 ran in 8",
        ),
        (looked_at(1.0, 5, 30, 4), looked_at(2.0, 4, 30, 8), PAIRED, ""),  # all wait at their ends
        (ran(1.0), looked_at(2.0, 4, 0, 0), PAIRED, ""),  # on several hosts nobody looks
        (ran(1.0), looked_at(2.0, 4, 10, 9), replace(PAIRED, compare="side-by-side"), ""),
        # From a clock that stands still in the pauses they must not be subtracted.
        (printed(0.5, 1.0), printed(1.0, 2.0), PAIRED, "the figures of launches 4 and 5 do not"),
        (printed(0.9, 1.0), printed(2.9, 3.0), FIGURE, ""),
        # A median of steps: a short step fits between two pauses, a long one does not.
        (printed(0.62, 1.0), printed(4.9, 3.0), FIGURE, "the figures of launches 4 and 5 do not"),
        (printed(0.9, 1.0), printed(1.8, 3.0), FIGURE, ""),  # alone they were off, too
    ],
)
def test_a_pair_that_could_not_be_compared_is_the_last_side_by_side(
    best: Outcome, baseline: Outcome, spec: StudySpec, why: str
) -> None:
    state = after_a_pair(best, baseline, spec, 3.0 if spec is FIGURE else 2.0)
    assert state.why_in_turn.startswith(why) and bool(state.why_in_turn) == bool(why)
    assert len(state.next) == (1 if why else 2)


def test_the_interval_is_wider_by_what_a_side_waits() -> None:
    def gain(*waits: int) -> SpeedUp:
        pair = [
            record(1 + n, setting, Purpose.CONFIRM, looked_at(2.0 - n, 2 - n, 100, idle, idle))
            for n, (setting, idle) in enumerate(zip((BASELINE, BEST), waits, strict=True))
        ]
        pairs = [(pair[0], pair[1])] * 3
        return Pairs(pairs, is_side_by_side=True, rule=SIDE_BY_SIDE).gain

    for waits in ((10, 0), (0, 10), (10, 10)):  # those of both do not cancel
        assert gain(*waits).low == pytest.approx(gain(0, 0).low / 1.1)
        assert gain(*waits).high == pytest.approx(gain(0, 0).high * 1.1)


def test_a_window_of_a_job_does_not_show_how_a_figure_lies_to_its_running_time() -> None:
    history = searched(2.0, PAIRED, window=WINDOW, wall_s=0.1)
    pair = [
        record(n, setting, Purpose.CONFIRM, replace(ran(cost), side_by_side=SideBySide(9 - n)))
        for n, setting, cost in ((4, BEST, 1.0), (5, BASELINE, 2.0))
    ]
    assert all(r.outcome.exclusion is None for r in pairing.check_pair(pair, [history, history]))


@pytest.mark.parametrize(
    ("defaults_s", "then_s", "conclusion", "export"),
    [
        (1.02, 0.8, Conclusion.NO_GAIN, BASELINE),  # it turns out slower
        (0.5, 2.0, Conclusion.FASTER, BEST),  # the defaults looked faster
        (0.5, 0.5, Conclusion.NO_GAIN, BASELINE),
    ],
)
def test_the_launches_of_the_comparison_decide(
    defaults_s: float, then_s: float, conclusion: Conclusion, export: Setting
) -> None:
    history = proved(searched(defaults_s), {BEST: always(1.0), BASELINE: always(then_s)})
    state = confirmation(history, BEST)
    assert (state.conclusion, state.export(history)) == (conclusion, export)
    assert state.finding is not None
    assert state.finding.claim == ("faster" if export == BEST else "slower")


def test_if_the_search_calls_the_defaults_best_the_fastest_other_is_launched_in_turn() -> None:
    """The defaults may come to the same as a setting."""
    made = [record(1, GUESS, Purpose.GUESS, ran(1.5)), record(2, BEST, Purpose.BASELINE, ran(1.0))]
    state = confirmation(History.judged(CONFIRMED, made, baseline=BEST), BEST)
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
    history = proved(searched(1.5), steady)
    proven = found(history)
    assert proven.conclusion is Conclusion.FASTER
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


@pytest.mark.parametrize("defaults_s", [8.0, 2.0])
def test_exact_confirms_by_ranks_alone(defaults_s: float) -> None:
    history = searched(defaults_s, spec=replace(CONFIRMED, confirm="exact"))
    far = proved(history, {BEST: always(1.0), BASELINE: always(defaults_s)})
    assert sides(far) == "dbbd" * 3


@pytest.mark.parametrize("works", [0, 1])
def test_a_best_that_fails_twice_is_not_handed_over(works: int) -> None:
    times: Times = {BEST: first(*[1.0] * works, then=CRASH), BASELINE: always(2.0)}
    history = proved(searched(2.0), times)
    state = confirmation(history, BEST)
    assert state.best_failed == CRASH and state.finding is None
    assert (state.conclusion, state.export(history)) == (Conclusion.NO_GAIN, BASELINE)
    assert found(history).export == BASELINE


@pytest.mark.parametrize("works", [None, 0, 1])
def test_beside_failing_defaults_the_best_is_handed_over_with_nothing_proven(
    works: int | None,
) -> None:
    times: Times = {BEST: always(1.0), BASELINE: first(*[2.0] * (works or 0), then=CRASH)}
    history = proved(searched(CRASH if works is None else 2.0), times)
    state = confirmation(history, BEST)
    assert (state.conclusion, state.reference) == (Conclusion.BASELINE_FAILS, None)
    assert state.failure == CRASH and state.export(history) == BEST


values = st.lists(st.one_of(st.floats(0.5, 20.0), st.just(CRASH)), min_size=1, max_size=8)


@settings(max_examples=30)
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


def test_a_comparison_far_beyond_the_budget_is_said_with_the_option_that_ends_it(
    tmp_path: Path,
) -> None:
    """The defaults take 40 s, so one pair of launches exceeds the budget by more than half."""
    events: list[Event] = []
    runner, spec = FakeRunner(lambda s: 20 * surface(s)), replace(CONFIRMED, budget_s=20.0)
    study_in(tmp_path, runner, spec, on_event=events.append)
    notes = [note.text for note in events_of(Note, events) if "--confirm none" in note.text]
    assert len(notes) == 1
    assert notes[0].startswith("the comparison with your defaults takes about ")
