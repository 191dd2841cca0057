"""Figures that are no seconds of the program's clock: never raced or cut as if they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, CONFIRMED, ran, record
from tuner.model import BASELINE, Finished, LaunchRecord, ObjectiveSpec, Progress, Purpose
from tuner.store.identity import identity
from tuner.study.confirmation import confirmation
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


def cut(history: History) -> float | None:
    """Where the defaults are cut, as the first launch of them is told."""
    best = history.records[-1].outcome.samples[0]
    turn = launched(Purpose.CONFIRM, 3, best.elapsed_s, best.iterations)
    standing = confirmation(history.add(turn), BEST)
    assert standing.next == (standing.reference,)
    return standing.limit_s


@pytest.mark.parametrize(
    ("objective", "scale", "limit_s"),
    [(RATE, 1.0, None), (KEY, 1.0, None), (STEADY, 0.01, 0.04 / 1.5), (STEADY, 5.0, 20 / 1.5)],
)
def test_the_defaults_are_cut_only_at_a_figure_that_is_known_before_the_end(
    objective: ObjectiveSpec, scale: float, limit_s: float | None
) -> None:
    assert cut(searched(objective, scale)) == (None if limit_s is None else pytest.approx(limit_s))


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
