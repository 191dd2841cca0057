"""Which launches are to be windows."""

from __future__ import annotations

from dataclasses import replace

from tests.study.test_cold_knobs import CHUNK, LIVE, THREE, TWO, no, study
from tests.study_surface import CRASH
from tests.study_windows import Told, setting
from tuner.model import Purpose
from tuner.study.due import iterations_due

START, OTHER, THIRD = setting(1), setting(2), setting(3)


def windows() -> Told:
    """A job that has had windows."""
    return Told().cold(START, 3.0).starts(START, 3.0).window(OTHER, 2.0)


def test_a_setting_that_failed_in_a_window_is_due_to_be_launched() -> None:
    plan = windows().window(THIRD, CRASH).plan
    assert iterations_due(plan, Purpose.SEARCH, THIRD) is None
    assert iterations_due(plan, Purpose.SEARCH, OTHER) == 100


def test_but_not_for_a_knob_that_is_switched_no_more() -> None:
    told = Told(CHUNK, LIVE).cold(TWO, 2.0).starts(setting(chunk=1), 3.0).window(TWO, no(TWO))
    assert iterations_due(told.plan, Purpose.REPEAT, TWO) is None
    told = study(TWO, THREE)
    assert iterations_due(told.plan, Purpose.REPEAT, TWO) == 100
    told.records[-2] = replace(
        told.records[-2], outcome=replace(told.records[-2].outcome, ending=CRASH)
    )
    assert iterations_due(told.plan, Purpose.REPEAT, TWO) is None
