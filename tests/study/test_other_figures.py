"""Figures that are no seconds of the program's clock: never raced or cut as if they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, CONFIRMED, ran, record
from tuner.launch.clocks import OtherSide, once_compared
from tuner.model import (
    BASELINE,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Progress,
    Purpose,
    Stopped,
)
from tuner.store.identity import identity
from tuner.study.history import History

RATE = ObjectiveSpec(kind="pattern", pattern="(.)", unit="ns/day", maximize=True)
WALL = ObjectiveSpec(kind="wall")
STEADY = ObjectiveSpec(statistic="steady")
KEY = ObjectiveSpec(key="val")


def launched(purpose: Purpose, number: int, cost: float, iterations: int) -> LaunchRecord:
    setting = BASELINE if purpose is Purpose.BASELINE else BEST
    made = record(number, setting, purpose, ran(cost))
    log = (Progress(10, 4.0, 7.0), Progress(20, 8.0, 11.0))
    outcome = replace(made.outcome, ending=Finished(cost, iterations), progress=log, wall_s=1000.0)
    return replace(made, outcome=outcome)


def searched(objective: ObjectiveSpec, scale: float = 1.0, iterations: int = 100) -> History:
    """The defaults are four times worse than the best."""
    made = [
        launched(Purpose.BASELINE, 1, 4.0 * scale, iterations),
        launched(Purpose.GUESS, 2, 1.0 * scale, iterations),
    ]
    return History.judged(replace(CONFIRMED, objective=objective), tuple(made))


@pytest.mark.parametrize(
    ("objective", "scale", "is_stopped"),
    [(RATE, 1.0, False), (KEY, 1.0, False), (STEADY, 0.01, True), (STEADY, 5.0, True)],
)
def test_the_pace_of_the_defaults_is_enough_only_if_the_figure_follows_it(
    objective: ObjectiveSpec, scale: float, is_stopped: bool
) -> None:
    """The best does 100 iterations in a second each, or a share of it; the defaults take four."""
    stopper = once_compared(objective.clock, 100, OtherSide(1.0 + 100 * scale, scale))
    log = [(done, 4.0 * scale * done) for done in range(10, 90, 10)]
    verdict = stopper(log, log[-1][1] + 1.0, 1.0)
    assert isinstance(verdict, Stopped) == is_stopped
    if isinstance(verdict, Stopped):
        assert verdict.projection_s == pytest.approx(4.0 * scale)


def test_a_study_belongs_to_its_figure() -> None:
    specs = [
        ObjectiveSpec(), KEY, WALL, STEADY, RATE, replace(RATE, unit="GFLOPS"),
        replace(RATE, maximize=False), replace(RATE, pattern="(..)"), replace(KEY, unit="ms"),
    ]  # fmt: skip
    told = [identity(replace(CONFIRMED, objective=each))["objective"] for each in specs]
    assert told[0] == "logreport elapsed_time in log", "as older studies have it"
    assert len(set(told)) == len(specs)
    priced = replace(CONFIRMED, items=5.0, price_per_hour=3.0)
    assert identity(priced) == identity(CONFIRMED)
