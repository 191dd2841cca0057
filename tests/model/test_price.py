from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests import study_samples as samples
from tests.study_samples import SPEC, launched
from tuner.cli import printed
from tuner.model import ObjectiveSpec, Stopped, price
from tuner.model.errors import UsageError
from tuner.results.exporters import tables
from tuner.results.study_view import StudyView

RATE = ObjectiveSpec(kind="pattern", pattern="(.)", unit="ns/day", maximize=True)
FLOPS = ObjectiveSpec(kind="pattern", pattern="(.)", unit="GFLOPS", maximize=True)
STEADY = ObjectiveSpec(statistic="steady")


def study(objective: ObjectiveSpec = SPEC.objective, **asked: Any) -> StudyView:
    """8.3 against 3.6, proven to be 2.3 times faster."""
    made = [*samples.searched(), *samples.in_turn(8.3, 3.6, 6)]
    if objective.clock == "none":  # nothing of it is ever stopped
        made = [each for each in made if not isinstance(each[2], Stopped)]
    return launched(made, spec=replace(SPEC, objective=objective, **asked))


def test_items_and_money_of_best_and_defaults() -> None:
    data = study(items=900.0, price_per_hour=4.0)
    items, money = price.lines(data.spec, data.result)
    assert items == "251 items/s, 108 with your defaults"
    assert money == "costs 0.00399 per run, 0.00926 with your defaults: saves 0.00530"
    assert price.lines(SPEC, study().result) == []


@pytest.mark.parametrize(
    ("objective", "cost", "what", "costs"),
    [
        (SPEC.objective, 36.0, "run", 0.02),
        (STEADY, 0.36, "iteration", 0.0002),
        (ObjectiveSpec(kind="pattern", unit="ms"), 0.36, "timed unit", 0.0002),
        (RATE, 1 / 12.0, "ns", 4.0),
        (replace(RATE, unit="img/s"), 1 / 100.0, "img", 2 / 360000),
    ],
)
def test_the_price_of_what_is_timed(
    objective: ObjectiveSpec, cost: float, what: str, costs: float
) -> None:
    spec = replace(SPEC, objective=objective, price_per_hour=2.0)
    found = price.timed(objective)
    assert found is not None and found.what == what
    assert price.price(spec, cost) == pytest.approx(costs)
    assert price.price(spec, None) is None


def test_what_a_figure_does_not_tell_is_refused() -> None:
    price.check(RATE, None, 2.0)
    price.check(STEADY, 64.0, 2.0)
    with pytest.raises(UsageError, match=r"\(ns/day\) is not a time, so --samples-per-run 64"):
        price.check(RATE, 64.0, None)
    for objective in (FLOPS, replace(RATE, unit="", maximize=True), replace(RATE, maximize=False)):
        with pytest.raises(UsageError, match="tells of no time, so --price-per-hour 2 has"):
            price.check(objective, None, 2.0)


def test_a_rate_is_shown_as_a_rate_and_never_as_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    data = study(RATE, price_per_hour=4.0)
    printed.print_result(data, summary=True)
    printed.print_settings(data)
    text = capsys.readouterr().out + tables.markdown(data).text
    assert "0.279 ns/day" in text
    assert "costs 345 per ns" in text, text
    assert not re.search(r"\d s\b", text), "no figure in seconds"
    assert "break-even" not in text
    rows = [line.split(",") for line in tables.csv(data).text.splitlines()]
    place = rows[0].index("elapsed_s")
    assert {row[place] for row in rows[1:]} == {""}
