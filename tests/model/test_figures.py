from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import stopped
from tuner.model import ObjectiveSpec, Outcome, Stopped, figures

TIME = ObjectiveSpec()
STEADY = ObjectiveSpec(statistic="steady")
RATE = ObjectiveSpec(kind="pattern", pattern="(.)", unit="ns/day", maximize=True)
JOULES = ObjectiveSpec(kind="pattern", unit="J")
positive = st.floats(1e-30, 1e30)


@pytest.mark.parametrize(
    ("objective", "cost", "text"),
    [
        (TIME, 8.314, "8.31 s"),
        (TIME, 0.9412, "0.941 s"),
        (STEADY, 0.0045678, "4.57 ms/it"),
        (STEADY, 90.0, "1.50 min/it"),
        (RATE, 1 / 12.345, "12.3 ns/day"),
        (RATE, 1 / 1.2345e9, "1.23e+09 ns/day"),
        (ObjectiveSpec(kind="pattern", unit="ms"), 0.25, "250 ms"),
        (JOULES, 1234.4, "1234 J"),
        (ObjectiveSpec(key="main/loss"), 0.012345, "0.0123"),
    ],
)
def test_a_figure_stands_in_its_own_unit(objective: ObjectiveSpec, cost: float, text: str) -> None:
    assert figures.shown(objective, cost) == text


@pytest.mark.parametrize(
    ("objective", "title", "axis", "better"),
    [
        (TIME, "time", "seconds", "faster"),
        (STEADY, "time", "seconds an iteration", "faster"),
        (RATE, "figure", "ns/day", "faster"),
        (ObjectiveSpec(key="main/loss"), "main/loss", "main/loss", "better"),
        (ObjectiveSpec(kind="pattern", unit="ms"), "time", "ms", "faster"),
        (JOULES, "figure", "J", "better"),
    ],
)
def test_headings_and_words(objective: ObjectiveSpec, title: str, axis: str, better: str) -> None:
    assert (figures.title(objective), figures.axis(objective)) == (title, axis)
    assert figures.words(objective).better == better


@pytest.mark.parametrize(
    ("ending", "text", "in_a_table"),
    [
        (stopped(4.1, 9.8), "after 4.10 s (projected 9.80 s)", "~9.80 s"),
        (stopped(4.1), "after 4.10 s", ">4.10 s"),
        (stopped(0.0), "before its log told anything", ">0.000 s"),
    ],
)
def test_a_stopped_launch(ending: Stopped, text: str, in_a_table: str) -> None:
    assert figures.came_to(TIME, Outcome(ending, 1.0, None)) == f"stopped {text}"
    assert figures.projected(TIME, ending) == in_a_table


def test_runs_have_a_median_and_a_range_in_the_order_of_the_figures() -> None:
    assert figures.spread(TIME, [3.0]) == "3.00 s (one run)"
    assert figures.spread(TIME, [3.1, 3.0, 3.4]) == "3.10 s (3 runs, 3.00 s to 3.40 s)"
    assert figures.spread(RATE, [0.1, 0.5]) == "3.33 ns/day (2 runs, 2.00 ns/day to 10.0 ns/day)"


@given(positive, positive)
def test_a_cost_is_less_where_the_figure_is_better(a: float, b: float) -> None:
    more, less = RATE, replace(RATE, maximize=False)
    assert math.isclose(more.cost(a) / more.cost(b), less.cost(b) / less.cost(a))
    assert (more.cost(a) < more.cost(b)) == (1 / a < 1 / b)
    assert math.isclose(more.figure(more.cost(a)), a)


@given(positive)
def test_a_number_keeps_three_digits(value: float) -> None:
    assert math.isclose(float(figures.number(value)), value, rel_tol=0.006)
