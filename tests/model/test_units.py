"""Times and shares as a user writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model.wording import parse_share, parse_time_s

UNITS = {"": 1, "s": 1, " s": 1, "m": 60, " min": 60, "h": 3600}
NUMBERS = st.floats(0.001, 99.999).map(lambda number: f"{number:.3f}") | st.sampled_from(
    [".5", "5.", "90", "1.5"]
)


@given(NUMBERS, st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_what_is_a_time_and_what_is_a_share(number: str, unit: str, space: str) -> None:
    assert parse_time_s(f"{space}{number}{unit}{space}") == pytest.approx(
        float(number) * UNITS[unit]
    )
    assert parse_share(f"{space}{number}{space}%") == pytest.approx(float(number) / 100)


@pytest.mark.parametrize("text", ["", "0", "-1", "1d", "1 2", "nan", "inf", "1e3", "1,5", "\u0661"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time above 0"):
        parse_time_s(text)
    for share in (text, f"{text}%"):
        if share != "1,5":
            with pytest.raises(ValueError):
                parse_share(share)
