"""Two studies side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import study
from tuner.model.errors import UsageError
from tuner.results.compare import BEST, DEFAULTS, Comparison, compare
from tuner.results.exporters.json import export


def document(best: list[float], defaults: list[float], **result: Any) -> dict[str, Any]:
    """An export whose best setting and baseline have these figures."""
    found: dict[str, Any] = json.loads(export(study()).text)
    found["result"] |= result
    best_setting = found["result"]["best"]["setting"]
    sides = [(best_setting, best), ({}, defaults)]
    found["measurements"] = [
        {"setting": setting, "samples": [{"figure": each} for each in figures]}
        for setting, figures in sides
    ]
    found["result"]["best"] = found["measurements"][0]
    return found


def compared(before: list[float], after: list[float], **result: Any) -> Comparison:
    return compare(document(before, [8.0, 8.1], **result), document(after, [8.0, 8.1], **result))


ONE = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98]


def test_the_best_and_each_setting_that_both_have_are_compared() -> None:
    found = compared(ONE, [0.5, 0.51, 0.49, 0.5, 0.5, 0.5])
    assert next(row.what for row in found.rows) == BEST
    assert DEFAULTS in {row.what for row in found.rows}
    assert found.best.gain.low < 2 < found.best.gain.high
    assert found.verdict(0.05).startswith("better: 2 (")
    (defaults,) = (row for row in found.rows if row.what == DEFAULTS)
    assert defaults.gain.low < 1 < defaults.gain.high


def test_more_of_a_rate_is_better() -> None:
    twice = [2 * each for each in ONE]
    assert compared(ONE, twice).verdict(0.05).startswith("worse: it takes 2 (")
    rate = {"unit": "ns/day", "direction": "maximize"}
    assert compared(ONE, twice, **rate).verdict(0.05).startswith("better: 2 (")


def test_it_is_worse_only_if_that_is_proven_beyond_the_share() -> None:
    slower = compared(ONE, [1.2 * each for each in ONE])
    assert slower.is_worse(0.05) and not slower.is_worse(0.2) and not slower.is_worse(0.5)
    assert "open" not in slower.verdict(0.05)
    assert not compared([1.0], [1.06]).is_worse(0.05), "one launch of each proves little"


def test_what_the_launches_cannot_tell_is_said_with_how_many_would() -> None:
    few = compared([1.0, 1.2], [1.02, 1.22])
    assert "no difference is proven" in few.verdict(0.1)
    assert "10 % is open: about " in few.verdict(0.1)
    assert "of each would tell" in few.verdict(0.1)
    assert "no number of launches" in few.verdict(0.02)
    assert "launches of one setting disagree" in compared([1.0, 9.0], [1.0, 9.0]).verdict(0.05)


def test_what_else_differs_is_named() -> None:
    before, after = document(ONE, ONE), document(ONE, ONE)
    assert not compare(before, after).differences
    after["study"]["machine"]["cpu_model"] = "Other CPU"
    after["study"]["launcher"]["version"] = "5.0.12"
    after["study"]["environment"] = [["OMP_PROC_BIND", "close"]]
    assert set(compare(before, after).differences) == {
        "machine.cpu_model: Some CPU -> Other CPU",
        "launcher.version: 5.0.11 -> 5.0.12",
        "environment.OMP_PROC_BIND: none -> close",
    }


def test_studies_of_different_figures_are_refused() -> None:
    with pytest.raises(UsageError, match="minimize s and maximize ns/day"):
        compare(document(ONE, ONE), document(ONE, ONE, unit="ns/day", direction="maximize"))
    nothing = document(ONE, ONE)
    nothing["result"]["best"] = None
    with pytest.raises(UsageError, match="has measured nothing"):
        compare(document(ONE, ONE), nothing)


TIMES = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8)


@given(TIMES, TIMES)
def test_the_other_way_round_the_gain_is_the_inverse(
    before: list[float], after: list[float]
) -> None:
    there, back = compared(before, after).best.gain, compared(after, before).best.gain
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1) or (there.low, back.high) == (0, float("inf"))
