from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import stopped
from tuner.model import TIME_UNITS_S, ObjectiveSpec, Stopped, figures

TIME = ObjectiveSpec()
STEADY = ObjectiveSpec(statistic="steady")
RATE = ObjectiveSpec(kind="pattern", pattern="(.)", unit="ns/day", maximize=True)
KEY = ObjectiveSpec(key="main/loss")
positive = st.floats(1e-30, 1e30)


@pytest.mark.parametrize(
    ("objective", "cost", "text"),
    [
        (TIME, 8.314, "8.31 s"),
        (TIME, 0.9412, "0.941 s"),
        (ObjectiveSpec(kind="wall"), 83.14, "83.1 s"),
        (STEADY, 0.0045678, "4.57 ms/it"),
        (STEADY, 4e-7, "0.400 us/it"),
        (STEADY, 90.0, "1.50 min/it"),
        (RATE, 1 / 12.345, "12.3 ns/day"),
        (RATE, 1 / 1.2345e9, "1.23e+09 ns/day"),
        (ObjectiveSpec(kind="pattern", unit="ms"), 0.25, "250 ms"),
        (ObjectiveSpec(kind="pattern", unit="min"), 90.0, "1.50 min"),
        (ObjectiveSpec(kind="pattern", unit="J"), 1234.4, "1234 J"),
        (KEY, 0.012345, "0.0123"),
    ],
)
def test_a_figure_stands_in_its_own_unit(objective: ObjectiveSpec, cost: float, text: str) -> None:
    assert figures.shown(objective, cost) == text


@pytest.mark.parametrize(
    ("objective", "title", "axis"),
    [
        (TIME, "time", "seconds"),
        (STEADY, "time", "seconds an iteration"),
        (RATE, "figure", "ns/day"),
        (KEY, "main/loss", "main/loss"),
        (ObjectiveSpec(kind="pattern", unit="ms"), "time", "ms"),
        (ObjectiveSpec(kind="pattern"), "figure", "figure"),
    ],
)
def test_headings(objective: ObjectiveSpec, title: str, axis: str) -> None:
    assert (figures.title(objective), figures.axis(objective)) == (title, axis)


@pytest.mark.parametrize(
    ("objective", "found", "said", "in_a_table"),
    [
        (TIME, stopped(4.1, 9.8), "after 4.10 s (projected 9.80 s)", "~9.80 s"),
        (TIME, stopped(4.1), "after 4.10 s", ">4.10 s"),
        (STEADY, stopped(0.041), "with at least 41.0 ms/it", ">41.0 ms/it"),
        (TIME, stopped(0.0), "before its log told anything", ">0.000 s"),
    ],
)
def test_a_stopped_launch(
    objective: ObjectiveSpec, found: Stopped, said: str, in_a_table: str
) -> None:
    assert figures.stopped(objective, found) == f"stopped {said}"
    assert figures.projected(objective, found) == in_a_table
    if "projected" in said:  # a window is shorter than what it is scaled to
        in_window = figures.stopped(objective, found, in_window=True)
        assert in_window == "stopped early (projected 9.80 s)"


def test_only_a_speed_is_faster() -> None:
    assert {figures.words(each).better for each in (TIME, STEADY, RATE)} == {"faster"}
    joules, accuracy = ObjectiveSpec(kind="pattern", unit="J"), replace(KEY, maximize=True)
    assert {figures.words(each).better for each in (KEY, joules, accuracy)} == {"better"}


@given(st.sampled_from(sorted(TIME_UNITS_S)), positive)
def test_a_time_comes_back_in_its_unit(unit: str, figure: float) -> None:
    objective = ObjectiveSpec(kind="pattern", unit=unit)
    assert objective.cost(figure) == pytest.approx(figure * TIME_UNITS_S[unit])
    assert objective.figure(objective.cost(figure)) == pytest.approx(figure)


@given(positive, positive)
def test_more_is_better_is_less_is_better_of_the_reciprocal(a: float, b: float) -> None:
    less, more = ObjectiveSpec(kind="pattern"), ObjectiveSpec(kind="pattern", maximize=True)
    assert more.cost(a) / more.cost(b) == pytest.approx(less.cost(b) / less.cost(a))
    assert (more.cost(a) < more.cost(b)) == (1 / a < 1 / b)
    assert more.figure(more.cost(a)) == pytest.approx(a)


@given(positive)
def test_a_number_keeps_three_digits(value: float) -> None:
    assert math.isclose(float(figures.number(value)), value, rel_tol=0.006)
