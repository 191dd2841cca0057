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
    Outcome,
    Purpose,
    Setting,
    Stopped,
)
from tuner.study.history import History
from tuner.study.optuna_trials import as_trial, distributions, is_told, state_of

STOPPED = Stopped(1.5, 3.0, 2.5, 3.5, 0.12, "drift")
INTERRUPTED = Failed(FailureKind.INTERRUPTED, "ended by the user")


def launch(ending: Ending | float, setting: Setting = BEST, number: int = 7) -> LaunchRecord:
    outcome = ran(ending)
    if isinstance(ending, Stopped):
        outcome = replace(outcome, progress=log(4.0)[:2])
    return record(number, setting, Purpose.SEARCH, outcome)


def told(made: LaunchRecord) -> FrozenTrial:
    return as_trial(History.judged(SPEC, (made,)), made)


def test_what_finished_is_complete_with_its_time() -> None:
    trial = told(launch(1.25))
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 1.25)
    assert trial.params == BEST.as_dict()
    assert trial.user_attrs == {"launch": 7, "purpose": "search"}
    assert trial.system_attrs == {"constraints": (0.0,)}
    assert trial.intermediate_values == {}


def test_what_was_stopped_is_pruned_with_its_projection_where_it_got_to() -> None:
    trial = told(launch(STOPPED))
    assert (trial.state, trial.value) == (TrialState.PRUNED, None)
    assert trial.intermediate_values == {50: 3.0}
    assert trial.user_attrs == {"launch": 7, "purpose": "search", "bound_s": 1.5, "rule": "drift"}
    assert trial.system_attrs == {"constraints": (0.0,)}


def test_what_was_stopped_before_its_first_entry_is_pruned_at_nothing() -> None:
    made = launch(STOPPED)
    assert told(replace(made, outcome=replace(made.outcome, progress=()))).intermediate_values == {
        0: 3.0
    }


def test_what_failed_carries_a_constraint_that_does_not_hold() -> None:
    trial = told(launch(CRASH))
    assert (trial.state, trial.value) == (TrialState.FAIL, None)
    assert trial.system_attrs == {"constraints": (1.0,)}
    assert trial.user_attrs["failure"] == "crashed: exit status 1"
    assert trial.intermediate_values == {}


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
    "setting", [BASELINE, Setting.of({"omp_threads": 1}), Setting.of({"a": 1, "b": 2})]
)
def test_settings_outside_of_the_space_are_not_told(setting: Setting) -> None:
    made = launch(1.0, setting)
    assert not is_told(History.judged(SPEC, (made,)), made)


def test_what_was_interrupted_is_not_told() -> None:
    made = launch(INTERRUPTED)
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


def test_a_log_may_stop_at_any_length() -> None:
    for length in range(1, 5):
        outcome = Outcome(STOPPED, 2.0, None, log(4.0)[:length])
        made = record(1, BEST, Purpose.REPEAT, outcome)
        assert told(made).intermediate_values == {25 * length: 3.0}
