"""Which number a group points at, in which format, with which unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.objectives.number import CutError, read
from tuner.model import Reading


def at(line: str, group: str, *, is_separated: bool = False) -> Reading:
    """What is read of the first place in the line that holds this."""
    before, _, after = line.partition(group)
    return read(before, group, after, is_separated=is_separated)


@pytest.mark.parametrize(
    ("line", "group", "by_point", "by_comma", "unit"),
    [
        ("5/5 - 1s 54ms/step", "54", 54, 54, "ms/step"),
        ("5/5 1s 1s/step", "1s/step", 1, 1, "s/step"),
        ("T 12.5 ms per step", "12.5", 12.5, None, "ms/step"),
        ("took 12.5.", "12.5", 12.5, None, ""),
        ("took 12.5.", "12.5.", 12.5, None, ""),
        ("12.5, 13", "12.5", 12.5, None, ""),
        ("12.", "12.", 12, None, ""),
        ("1,12.5", "12.5", 12.5, None, ""),
        ("1,12,48", "12", 12, 12, ""),
        ("[0, 12.48]", "12.48", 12.48, None, ""),
        ('{"time": 12.5}', "12.5", 12.5, None, ""),
        ('{"time_ms": 12.5,', "12.5", 12.5, None, "ms"),
        ("2026-01-02 10:00:01,123 INFO 12.5", "12.5", 12.5, None, ""),
        ("step 5 204.5", "204.5", 204.5, None, ""),
        ("v1.2.3 took 12.5 s", "12.5", 12.5, None, "s"),
        ("x .5", ".5", 0.5, None, ""),
        ("x +1.5D+02", "+1.5D+02", 150, None, ""),
        ("1.204", "1.204", 1.204, 1204, ""),
        ("1,204", "1,204", 1204, 1.204, ""),
        ("0,204", "0,204", None, 0.204, ""),
        ("1.204,5", "1.204,5", None, 1204.5, ""),
        ("1,204,567", "1,204,567", 1204567, None, ""),
        ("1\u00a0204,5 s", "1\u00a0204,5", None, 1204.5, "s"),
        ("t 1 204,5 s", "1 204,5", None, 1204.5, "s"),
        ("1_204_567.5 tok/s", "1_204_567.5", 1204567.5, None, "tok/s"),
        ("epoch_3_120 ms", "120", 120, 120, "ms"),
        ("1m 1.35s WALL", "1m 1.35", 61.35, 61.35, "s"),
        ("a 2h 3m 4s", "2h 3m 4s", 7384, 7384, "s"),
        ("01:02:03.5", "01:02:03.5", 3723.5, 3723.5, "s"),
        ("45%", "45", 45, 45, "%"),
        ("P: -3", "3", -3, -3, ""),
    ],
)  # fmt: skip
def test_what_is_read(
    line: str, group: str, by_point: float | None, by_comma: float | None, unit: str
) -> None:
    reading = at(line, group)
    assert (reading.by_point, reading.by_comma) == (
        pytest.approx(by_point) if by_point is not None else None,
        pytest.approx(by_comma) if by_comma is not None else None,
    )
    assert reading.unit == unit


@pytest.mark.parametrize(
    ("line", "group", "whole"),
    [
        ("t 12.48", "12", "12.48"),
        ("t 12.48", "48", "12.48"),
        ("t 0.5", "0", "0.5"),
        ("t 1.20e+02 s", "1.20", "1.20e+02"),
        ("t 12,48 s", "12", "12,48"),
        ("t 1'204.5", "1", "1'204.5"),
        ("at 1_204 tok/s", "204", "1_204"),
        ("t 1 204,5 s", "1", "1 204,5"),
        ("v 1.2.3", "1.2", "1.2.3"),
        ("0:00:55", "55", "0:00:55"),
        ("1m 1.35s WALL", "1.35", "1m 1.35s"),
        ("1 h 5 min left", "5", "1 h 5 min"),
        ("10,125.5", "125.5", "10,125.5"),
    ],
)
def test_a_part_of_a_number_is_none(line: str, group: str, whole: str) -> None:
    with pytest.raises(CutError) as caught:
        at(line, group)
    assert caught.value.whole.text == whole and caught.value.part.text == group


def test_a_separator_that_the_pattern_names_ends_the_number() -> None:
    assert at("10,125.5", "125.5", is_separated=True).by_point == 125.5
    assert at("1 204", "1", is_separated=True).by_point == 1


def test_what_is_no_number() -> None:
    for text in ("", "1_00", "nan", "inf", "0x1p3", "one", "1 2", "٣", "v1", "1.2.3", "$5"):
        with pytest.raises(ValueError, match=r"not a number|nothing in its group"):
            at(f"<{text}>", text) if text else read("a", "", "b")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_read_or_refused(before: str, text: str, after: str) -> None:
    try:
        reading = read(before, text, after)
    except ValueError:
        return
    assert reading.by_point is not None or reading.by_comma is not None


@given(st.floats(0.0001, 1e9), st.sampled_from(["{:.3f}", "{:,.2f}", "{:.6e}", "{:g}"]))
def test_each_number_as_python_prints_it_is_read(value: float, form: str) -> None:
    text = form.format(value)
    reading = read("took ", text, " s")
    assert reading.by_point == pytest.approx(float(text.replace(",", "")))
