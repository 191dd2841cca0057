"""Which number a group points at, in which format, with which unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.objectives.number import CutError, read
from tuner.model import Reading


def at(line: str, group: str, *, separators: str = "") -> Reading:
    """What is read of the first place in the line that holds this."""
    before, _, after = line.partition(group)
    return read(before, group, after, separators=separators)


@pytest.mark.parametrize(
    ("line", "group", "value", "unit"),
    [
        ("5/5 - 1s 54ms/step", "54", 54, "ms/step"),
        ("T 12.5 ms per step", "12.5", 12.5, "ms/step"),
        ("[0, 12.48]", "12.48", 12.48, ""),
        ('{"time_ms": 12.5,', "12.5", 12.5, "ms"),
        ("2026-01-02 10:00:01,123 INFO 12.5", "12.5", 12.5, ""),
        ("v1.2.3 took 12.5 s", "12.5", 12.5, "s"),
        ("1,204,567.5", "1,204,567.5", 1204567.5, ""),
        ("1_204_567.5 tok/s", "1_204_567.5", 1204567.5, "tok/s"),
        ("1 204.5 ms", "1 204.5", 1204.5, "ms"),
        ("12,3.5,7.25", "7.25", 7.25, ""),
        ("1m 1.35s WALL", "1m 1.35", 61.35, "s"),
        ("real\t0m1,5s", "0m1,5s", 1.5, "s"),
        ("01:02:03.5", "01:02:03.5", 3723.5, "s"),
        ("P: -3", "3", -3, ""),
    ],
)
def test_what_is_read(line: str, group: str, value: float, unit: str) -> None:
    reading = at(line, group)
    assert (reading.value, reading.unit) == (value, unit)


@pytest.mark.parametrize(
    ("line", "group", "whole"),
    [
        ("t 12.48", "48", "12.48"),
        ("t 1.20e+02 s", "1.20", "1.20e+02"),
        ("t 1 204 ms", "1", "1 204"),
        ("v 1.2.3", "1.2", "1.2.3"),
        ("0:00:55", "55", "0:00:55"),
        ("1m 1.35s WALL", "1.35", "1m 1.35s"),
        ("10,125.5", "125.5", "10,125.5"),
    ],
)
def test_a_part_of_a_number_is_none(line: str, group: str, whole: str) -> None:
    with pytest.raises(CutError) as caught:
        at(line, group)
    assert caught.value.whole.text == whole and caught.value.part.text == group


def test_a_mark_that_the_pattern_names_ends_the_number() -> None:
    assert at("10,125.5", "125.5", separators=",").value == 125.5
    assert at("10 125 8", "10", separators=" ").value == 10


@pytest.mark.parametrize(
    "text", ["1_00", "nan", "0x1p3", "one", "1 2", "٣", "v1", "1.2.3", "$5", "12,48", "1'204"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        at(f"<{text}>", text)


@given(st.floats(0.0001, 1e9), st.sampled_from(["{:.3f}", "{:,.2f}", "{:.6e}", "{:g}"]))
def test_each_number_as_python_prints_it_is_read(value: float, form: str) -> None:
    text = form.format(value)
    reading = read("took ", text, " s")
    assert reading.value == pytest.approx(float(text.replace(",", "")))
