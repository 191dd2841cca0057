"""What the purposes of launches come to, as the documentation promises it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.model import Purpose
from tuner.model.stages import STAGES, Stage


def purposes(holds: Callable[[Stage], bool]) -> set[str]:
    return {purpose.value for purpose in Purpose if holds(purpose.stage)}


def test_every_purpose_has_a_row() -> None:
    assert set(STAGES) == set(Purpose)


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        (lambda stage: stage.counts_as_trial, "guess search record"),
        (lambda stage: stage.is_of_search, "guess search repeat simplify record"),
        (lambda stage: stage.is_sampled, "search"),
        (lambda stage: stage.may_be_window, "guess search repeat simplify"),
        (lambda stage: not stage.counts_for_budget, "confirm"),
        (lambda stage: not stage.is_evidence, "warm-up"),
        (lambda stage: stage.follows_search, "simplify confirm"),
    ],
)
def test_what_holds_of_which_launches(holds: Callable[[Stage], bool], expected: str) -> None:
    assert purposes(holds) == set(expected.split())


def test_what_is_compared_is_launched_by_itself() -> None:
    assert not purposes(lambda stage: stage.is_unselected and stage.may_be_window)
