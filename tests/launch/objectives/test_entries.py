"""What the entries of a log say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.written_logs import FORMATS, Entry, entries
from tuner.launch.objectives.entries import BadLogError, check, epochs, parse


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([{"epoch_detail": 1}], 1.0),
        ([{"epoch_detail": 0.1}, {"epoch_detail": 0.2}], 0.2),
        ([{"epoch_detail": 0.1}, {}], None),
        ([{"epoch_detail": 0.0}], None),
        ([{"epoch_detail": -1.0}], None),
        ([{"epoch_detail": float("nan")}], None),
        ([{"epoch_detail": float("inf")}], None),
        ([{"epoch_detail": True}], None),
        ([{"epoch_detail": "1"}], None),
        ([{"epoch": 1}, {"epoch": 2}, {"epoch": 3}], 3.0),
        ([{"epoch": 0}], None),
        ([{"epoch": 0}, {"epoch": 0}, {"epoch": 1}], None),
        ([{"epoch": 2}, {"epoch": 4}], None),
        ([{"epoch": "1"}], None),
        ([{"epoch": 1, "epoch_detail": 1.5}], 1.5),
        ([{}], None),
    ],
)
def test_epochs_are_told_exactly_or_not_at_all(told: list[Entry], found: float | None) -> None:
    assert epochs(told) == found


# --- laws --------------------------------------------------------------------------------

LIKELY = st.sampled_from(
    ["[", "{", "- ", "iteration", "elapsed_time", ": ", "1", '"', "!!int", "\n"]
)


@given(
    st.binary() | st.lists(LIKELY | st.text(max_size=3)).map(lambda words: "".join(words).encode()),
    st.sampled_from(["", ".json", ".jsonl", ".yaml"]),
)
def test_any_bytes_are_a_log_or_a_bad_log(data: bytes, suffix: str) -> None:
    try:
        progress, value = check(parse(data, suffix))
    except BadLogError as error:
        assert str(error)
    else:
        assert progress
        assert value > 0


@given(
    st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=5).map(sorted),
    st.floats(),
    st.sampled_from(sorted(FORMATS)),
    st.booleans(),
)
def test_a_valid_log_comes_back_whole(
    elapsed: list[float], loss: float, name: str, by_suffix: bool
) -> None:
    log = [{"epoch": 1, "main/loss": loss, **entry} for entry in entries(*elapsed)]
    found = parse(FORMATS[name](log).encode(), Path(name).suffix if by_suffix else "")
    progress, value = check(found)
    assert [step.elapsed_s for step in progress] == elapsed
    assert value == elapsed[-1]
