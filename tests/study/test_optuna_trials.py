"""A launch in Optuna's words: everything about it is true."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from tests.study_surface import BEST, CRASH, SPEC, capped, log, ran, record
from tuner.model import (
    BASELINE,
    Choice,
    Ending,
    Failed,
    FailureKind,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
)
from tuner.study.history import History
from tuner.study.optuna_trials import as_trial, distributions, is_told, state_of

STOPPED = Stopped(1.5, 3.0, 2.5, 3.5, 0.12, "drift")
INTERRUPTED = Failed(FailureKind.INTERRUPTED, "ended by the user")


def launch(
    ending: Ending | float, setting: Setting = BEST, number: int = 7, entries: int = 2
) -> LaunchRecord:
    outcome = ran(ending)
    if isinstance(ending, Stopped):
        outcome = replace(outcome, progress=log(4.0)[:entries])
    return record(number, setting, Purpose.SEARCH, outcome)


def told(made: LaunchRecord) -> FrozenTrial:
    return as_trial(History.judged(SPEC, (made,)), made)


BOUND = {"bound_s": 1.5, "rule": "drift"}


@pytest.mark.parametrize(
    ("made", "state", "value", "attributes", "constraint", "seen"),
    [
        (launch(1.25), TrialState.COMPLETE, 1.25, {}, 0.0, {}),
        (launch(STOPPED, entries=0), TrialState.PRUNED, None, BOUND, 0.0, {0: 3.0}),
        (launch(STOPPED, entries=1), TrialState.PRUNED, None, BOUND, 0.0, {25: 3.0}),
        (launch(STOPPED, entries=4), TrialState.PRUNED, None, BOUND, 0.0, {100: 3.0}),
        (launch(CRASH), TrialState.FAIL, None, {"failure": "crashed: exit status 1"}, 1.0, {}),
    ],
)
def test_a_launch_is_told_with_what_came_of_it(
    made: LaunchRecord,
    state: TrialState,
    value: float | None,
    attributes: dict[str, object],
    constraint: float,
    seen: dict[int, float],
) -> None:
    trial = told(made)
    assert (trial.state, trial.value, trial.params) == (state, value, BEST.as_dict())
    assert trial.user_attrs == {"launch": 7, "purpose": "search", **attributes}
    assert trial.system_attrs == {"constraints": (constraint,)}
    assert trial.intermediate_values == seen


def test_it_began_and_ended_when_it_did() -> None:
    trial = told(launch(1.25))
    made = launch(1.25)
    assert trial.datetime_start is not None and trial.datetime_complete is not None
    assert trial.datetime_start.astimezone() == datetime.fromisoformat(made.started_at)
    assert trial.duration == timedelta(seconds=made.outcome.wall_s)


@pytest.mark.parametrize("purpose", list(Purpose))
def test_repeats_are_told_the_defaults_and_the_proof_are_not(purpose: Purpose) -> None:
    made = record(1, BEST, purpose, ran(1.0))
    told_of = {Purpose.GUESS, Purpose.SEARCH, Purpose.REPEAT, Purpose.RECORD}
    assert is_told(History.judged(SPEC, (made,)), made) == (purpose in told_of)


@pytest.mark.parametrize(
    "made",
    [
        launch(1.0, BASELINE),
        launch(1.0, Setting.of({"omp_threads": 1})),
        launch(1.0, Setting.of({"a": 1, "b": 2})),
        launch(INTERRUPTED),
    ],
)
def test_what_is_outside_of_the_space_or_was_interrupted_is_not_told(made: LaunchRecord) -> None:
    assert not is_told(History.judged(SPEC, (made,)), made)


def test_a_capped_value_is_told_as_what_it_came_to() -> None:
    asked = Setting.of({"omp_threads": 4, "iterator_workers": 1})
    outcome = ran(1.0, effects=tuple(capped("omp_threads", 2)(asked)))
    made = record(1, asked, Purpose.SEARCH, outcome)
    plan = History.judged(SPEC, (made,))
    assert is_told(plan, made) and as_trial(plan, made).params == BEST.as_dict()


def test_domains() -> None:
    named = replace(SPEC.knobs[1], domain=Choice(("unset", 1)))
    assert distributions((SPEC.knobs[0], named)) == {
        "omp_threads": IntDistribution(1, 4),
        "iterator_workers": CategoricalDistribution(("unset", 1)),
    }


@pytest.mark.parametrize(
    "endings", [(1.0, STOPPED, CRASH), (CRASH, 2.0, 1.5, STOPPED), (STOPPED, STOPPED, 3.0)]
)
def test_optunas_own_tools_take_the_best_of_what_finished(
    endings: tuple[float | Ending, ...],
) -> None:
    study = optuna.create_study()
    made = [launch(ending, number=n) for n, ending in enumerate(endings)]
    study.add_trials(told(each) for each in made)
    assert [trial.state for trial in study.trials] == [state_of(each) for each in made]
    assert study.best_value == min(each for each in endings if isinstance(each, float))
