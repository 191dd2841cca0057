"""Which rules stop which launches, and ``--max-time`` in a whole study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.study_surface import (
    BEST,
    SPEC,
    STARTUP_S,
    FakeRunner,
    optuna_in,
    ran,
    record,
    records_in,
    study_in,
    surface,
)
from tuner.model import BASELINE, Failed, Finished, Outcome, Purpose, Stopped, StudySpec
from tuner.search.stopper import GoOn
from tuner.study.history import History
from tuner.study.stopping_rules import NextLaunch, stopper

#: Settings that take as long as this or longer are too slow.
MAX_S = 2.2
BOUNDED = replace(SPEC, max_time_s=MAX_S)


def launched(purpose: Purpose, seconds: float, spec: StudySpec = BOUNDED) -> Outcome:
    history = History.judged(spec, [record(1, BASELINE, Purpose.WARM_UP, ran(1.0))])
    return ran(seconds, stopper=stopper(NextLaunch(purpose, BEST, history)))


@pytest.mark.parametrize("purpose", [p for p in Purpose if p.stage.is_of_search])
def test_a_launch_of_the_search_is_stopped_by_where_it_is_heading(purpose: Purpose) -> None:
    outcome = launched(purpose, 5.0)
    assert isinstance(outcome.ending, Stopped)
    assert outcome.ending.bound_s < 5.0 / 2
    assert outcome.wall_s < STARTUP_S + 5.0
    assert isinstance(launched(purpose, MAX_S - 0.2).ending, Finished)
    assert isinstance(launched(purpose, 5.0, SPEC).ending, Finished), "nothing is asked for"


@pytest.mark.parametrize("purpose", [p for p in Purpose if not p.stage.is_of_search])
def test_another_launch_is_followed_for_the_whole_time(purpose: Purpose) -> None:
    ending = launched(purpose, 5.0).ending
    assert isinstance(ending, Stopped)
    assert MAX_S <= ending.bound_s <= 5.0


def test_a_program_that_writes_no_log_is_stopped() -> None:
    for purpose in Purpose:
        rule = stopper(NextLaunch(purpose, BEST, History.judged(BOUNDED, ())))
        assert rule is not None
        assert isinstance(rule([], 2 * MAX_S - 0.1, None), GoOn), "it may start for as long again"
        assert isinstance(rule([], 2 * MAX_S + 0.1, None), Stopped)


@pytest.mark.parametrize(
    ("sampler", "pruner"),
    [("tune", "race"), ("random", "optuna.pruners:NopPruner")],
)
def test_it_holds_beside_every_sampler_and_pruner(folder: Path, sampler: str, pruner: str) -> None:
    spec = replace(BOUNDED, sampler=sampler, pruner=pruner)
    study_in(folder, FakeRunner(), spec)
    trials, slow = optuna_in(folder), 0
    for made in records_in(folder):
        is_slow, ending = surface(made.setting) > MAX_S, made.outcome.ending
        if made.trial is None or made.purpose is Purpose.REPEAT:
            continue
        slow += is_slow
        assert not isinstance(ending, Failed)
        assert isinstance(ending, Stopped) or not is_slow
        trial = trials[made.number]
        assert trial.state is (
            TrialState.PRUNED if isinstance(ending, Stopped) else TrialState.COMPLETE
        )
    assert slow, "the surface has settings that are too slow"
