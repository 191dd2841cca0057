"""The probe's files of phases are read; whatever else lies there is passed over."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.phases import parse_phases, read_phases


def test_what_is_no_such_file_says_nothing() -> None:
    for text in (
        "",
        "loader",
        "sleep\t1\t1\t1\tx",
        "loader\t1\t1\tx",
        "loader\t-1\t0\t0\t",
        "loader\tnan\t0\t0\t",
        "compute\t0\t0\t0\t",
        "loader\t1e308\t1e308\t1e308\t",
    ):
        assert parse_phases(text.encode(), 0) == ([], 0.0)


@given(st.binary() | st.text("loadercmputxng0123456789.\t\n-e").map(str.encode))
def test_any_file_can_be_read(data: bytes) -> None:
    shares, busy_s = parse_phases(data, 0)
    assert 0 <= busy_s < math.inf
    assert all(each.where.isprintable() for each in shares), "an escape that is shown"
    assert not shares or sum(share.share for share in shares) == pytest.approx(1)


def test_a_folder_without_phases_has_none(tmp_path: Path) -> None:
    assert read_phases(tmp_path) == ()
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "rank-x.1.phases").write_text("compute\t1\t0\t0\t\n")
    assert read_phases(tmp_path) == ()
