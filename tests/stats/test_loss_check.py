from __future__ import annotations

import math

import pytest

from tuner.stats.loss_check import DIVERGED, finite, is_worse


@pytest.mark.parametrize(
    ("loss", "usual", "worse"),
    [
        (0.5, [0.4], False),
        (0.79, [0.4], False),
        (0.81, [0.4], True),
        (0.01, [0.4], False),
        (2.3, [0.30, 0.31, 0.29], True),
        (0.9, [0.2, 0.4], False),  # the defaults differ by as much
        (DIVERGED, [0.4], True),
        (DIVERGED, [DIVERGED], False),
        (DIVERGED, [], False),
        (1e-3, [1e-6], False),
        (-90.0, [-100.0], False),
        (50.0, [-100.0], True),
        (0.0005, [0.0], False),
        (0.5, [0.0], True),
    ],
)
def test_far_above_the_defaults_is_wrong(loss: float, usual: list[float], worse: bool) -> None:
    assert is_worse(loss, usual) is worse


@pytest.mark.parametrize(
    ("value", "loss"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (math.nan, DIVERGED),
        (math.inf, DIVERGED),
        (-math.inf, -DIVERGED),
        pytest.param(10**400, DIVERGED, id="long"),
        pytest.param(-(10**400), -DIVERGED, id="long negative"),
        (True, None),
        ("0.5", None),
        (None, None),
    ],
)
def test_what_a_log_has_is_a_number_or_none(value: object, loss: float | None) -> None:
    assert finite(value) == loss
