"""Windows that launches contradict."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_windows import Records, setting
from tuner.live.eligibility import live_vs_cold, why_switched_off
from tuner.model import BASELINE, Exclusion, Finished

TWO, START = setting(2, 1), setting(1, 1)


def disagreement(told: Records) -> Exclusion | None:
    return live_vs_cold(told.history.records, told.history.pooling.canonical)


def study(
    *, best: float = 1.0, baseline: float = 1.0, start: float | None = None, sd: float = 0.01
) -> Records:
    """Windows are off by these factors; six launches of the best and the defaults in turn."""
    rng = random.Random(3)

    def about(time_s: float) -> float:
        return time_s * math.exp(sd * rng.gauss(0, 1))

    told = Records().starts(START, about(3.0 * (start or 1.0)))
    for _ in range(3):
        told.window(TWO, about(2.0 * best))
    told.starts(BASELINE, about(6.0 * baseline))
    for _ in range(6):
        told.cold(TWO, about(2.0)).cold(BASELINE, about(6.0))
    if start is not None:
        told.cold(START, about(3.0)).cold(START, about(3.0))
    return told


@pytest.mark.parametrize("factor", [0.75, 1.35])
def test_a_setting_that_is_off_excludes_all_windows(factor: float) -> None:
    told = study(best=factor)
    found = disagreement(told)
    assert found is not None and f"disagree: {TWO} took" in found.text
    assert ("longer" in found.text) == (factor > 1)
    told.exclude((1, 2, 3, 4, 5), found)
    assert disagreement(told) is None
    assert "live and cold disagreed" in why_switched_off(told.records)


@pytest.mark.parametrize("factor", [0.7, 1.2, 2.0])
def test_all_off_alike_is_a_bias_of_the_scale(factor: float) -> None:
    assert disagreement(study(best=factor, baseline=factor)) is None


def test_one_that_is_off_beside_others_that_are_off_alike() -> None:
    found = disagreement(study(best=1.6, baseline=1.2, start=1.2))
    assert found is not None and f"disagree: {TWO} took" in found.text


@pytest.mark.parametrize(("factor", "disagrees"), [(0.85, False), (1.15, False), (1.4, True)])
def test_with_one_setting_to_compare_the_scale_may_be_off(factor: float, disagrees: bool) -> None:
    told = study(best=factor)
    told.records = [r for r in told.records if r.setting != BASELINE]
    assert (disagreement(told) is not None) == disagrees


@given(st.floats(0.955, 1.045))
def test_a_difference_below_five_per_cent_is_none(factor: float) -> None:
    assert disagreement(study(best=factor, sd=0.0)) is None


def test_what_differs_by_chance_is_rarely_taken_for_a_disagreement() -> None:
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = study()
        for place, each in enumerate(told.records):
            time_s = 6.0 if each.setting == BASELINE else 2.0
            noisy = Finished(time_s * math.exp(0.05 * rng.gauss(0, 1)), 100)
            told.records[place] = replace(each, outcome=replace(each.outcome, ending=noisy))
        found += disagreement(told) is not None
    assert found <= 12
