"""Which launches are to be windows, and when jobs are said to take no orders any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study.test_cold_only_knobs import CHUNK, LIVE, THREE, TWO, no, study
from tests.study_surface import CRASH
from tests.study_windows import Told, setting
from tuner.model import Exclusion, ExclusionKind, Purpose
from tuner.study.live_eligibility import COLD, iterations_due, takes_none

START, OTHER, THIRD = setting(1), setting(2), setting(3)


def windows() -> Told:
    """A job that has had windows."""
    return Told().cold(START, 3.0).starts(START, 3.0).window(OTHER, 2.0)


def test_before_a_first_window_one_launch_says_it() -> None:
    assert takes_none(Told().cold(START, 3.0).cold(OTHER, 2.0).plan)


def test_behind_windows_two_in_a_row_say_it() -> None:
    told = windows().cold(THIRD, 4.0)
    assert not takes_none(told.plan)
    assert takes_none(told.cold(setting(1, 2), 3.5).plan)
    assert takes_none(told.cold(setting(1, 3), 3.5).plan)


def test_one_that_takes_orders_comes_between() -> None:
    told = windows().cold(THIRD, 4.0).starts(START, 3.0).cold(setting(1, 2), 3.5)
    assert not takes_none(told.plan)


@pytest.mark.parametrize("purpose", sorted(COLD))
def test_launches_that_are_never_windows_say_nothing(purpose: Purpose) -> None:
    told = windows().cold(THIRD, 4.0, purpose=purpose).cold(setting(1, 2), 3.5)
    assert not takes_none(told.plan)
    assert takes_none(told.cold(START, 3.0, purpose=purpose).cold(setting(1, 3), 3.5).plan)


def test_nor_do_those_of_settings_that_failed_in_a_window() -> None:
    told = windows().window(THIRD, CRASH).cold(THIRD, 4.0).cold(setting(1, 2), 3.5)
    assert not takes_none(told.plan)


def test_nor_what_may_not_have_come_so_far() -> None:
    told = windows().cold(THIRD, CRASH).cold(setting(1, 2), 3.5)
    assert not takes_none(told.plan)
    apart = Exclusion(ExclusionKind.RANKS_WAITED, "only 1 of 2 ranks came to the end")
    assert takes_none(told.exclude((4,), apart).plan), "so far it came"


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
