"""A launch in Optuna's words: everything about it is true."""

from __future__ import annotations

from dataclasses import replace

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from tests.study_surface import BEST, CRASH, SPEC, log, ran, record
from tuner.model import (
    BASELINE,
    Ending,
    Failed,
    FailureKind,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
)
from tuner.study.history import History
from tuner.study.optuna_trials import as_trial, is_told, state_of

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
