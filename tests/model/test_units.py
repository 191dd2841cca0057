"""Times and shares as a user writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model.units import parse_share, parse_time_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("2m", 120.0),
        ("2 min", 120.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.", 5.0),
        (" 1 ", 1.0),
    ],
)
def test_what_is_a_time(text: str, seconds: float) -> None:
    assert parse_time_s(text) == seconds


@given(st.integers(1, 10**6), st.sampled_from([("", 1), ("s", 1), ("m", 60), ("h", 3600)]))
def test_every_whole_number_of_units(number: int, unit: tuple[str, int]) -> None:
    assert parse_time_s(f"{number}{unit[0]}") == number * unit[1]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("2%", 0.02),
        ("0.5 %", 0.005),
        (" 1% ", 0.01),
        (".5%", 0.005),
        ("5.%", 0.05),
        ("99.9%", 0.999),
    ],
)
def test_what_is_a_share(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@given(st.floats(0.001, 99.999), st.sampled_from(["", " "]))
def test_every_percentage_is_a_hundredth(percent: float, space: str) -> None:
    assert parse_share(f"{percent:.3f}{space}%") == pytest.approx(float(f"{percent:.3f}") / 100)
