"""Which rules stop which launches: ``--max-time``, whatever the sampler and the pruner are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, SPEC, STARTUP_S, ran, record
from tuner.model import BASELINE, Finished, Outcome, Purpose, Stopped, StudySpec
from tuner.search.stopper import GoOn
from tuner.study.history import History
from tuner.study.stopping_rules import NextLaunch, stopper

#: Settings that take as long as this or longer are too slow.
MAX_S = 2.2
BOUNDED = replace(SPEC, max_time_s=MAX_S, sampler="random", pruner="optuna.pruners:NopPruner")


def launched(purpose: Purpose, seconds: float, spec: StudySpec = BOUNDED) -> Outcome:
    history = History.judged(spec, [record(1, BASELINE, Purpose.WARM_UP, ran(1.0))])
    return ran(seconds, stopper=stopper(NextLaunch(purpose, BEST, history)))


@pytest.mark.parametrize("purpose", Purpose)
def test_a_launch_of_the_search_is_stopped_by_where_it_is_heading_others_at_the_limit(
    purpose: Purpose,
) -> None:
    outcome = launched(purpose, 5.0)
    assert isinstance(outcome.ending, Stopped)
    if not purpose.stage.is_of_search:
        assert MAX_S <= outcome.ending.bound_s <= 5.0
        return
    assert outcome.ending.bound_s < 5.0 / 2
    assert outcome.wall_s < STARTUP_S + 5.0
    assert isinstance(launched(purpose, MAX_S - 0.2).ending, Finished)
    assert isinstance(launched(purpose, 5.0, SPEC).ending, Finished), "nothing is asked for"


def test_a_program_that_writes_no_log_is_stopped() -> None:
    for purpose in Purpose:
        rule = stopper(NextLaunch(purpose, BEST, History.judged(BOUNDED, ())))
        assert rule is not None
        assert isinstance(rule([], 2 * MAX_S - 0.1, None), GoOn), "it may start for as long again"
        assert isinstance(rule([], 2 * MAX_S + 0.1, None), Stopped)
