"""Profiles of ranks: read, averaged, compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.profiles import Profile, changes, read


def left(folder: Path, name: str, **own_s: float) -> None:
    """A profile as the probe writes it: own seconds by function."""
    entries = [["/job/train.py", 7, function, own] for function, own in own_s.items()]
    (folder / name).write_text(json.dumps(entries))


def test_ranks_are_averaged_and_of_several_pythons_in_a_rank_the_longest_counts(
    tmp_path: Path,
) -> None:
    assert read(tmp_path) is None and read(tmp_path / "gone") is None
    left(tmp_path, "rank-0.9.json", helper=0.1)
    left(tmp_path, "rank-0.10.json", load=3.0, step=1.0)
    left(tmp_path, "rank-0.12.json", helper=0.2)
    left(tmp_path, "rank-1.11.json", load=1.0)
    found = read(tmp_path)
    assert found is not None
    assert found.ranks == 2
    assert found.own_s == {"job/train.py:7 load": 2.0, "job/train.py:7 step": 0.5}
    assert found.total_s == 2.5
    assert changes(found, found)[0].before_share == 0.8


def test_what_is_no_profile_is_passed_over(tmp_path: Path) -> None:
    for data in ("", "no JSON", "[1]", "{}", '["f"]', '[["f", 1, "n"]]', '[["f", 1, "n", "x"]]'):
        (tmp_path / "rank-0.10.json").write_text(data)
        assert read(tmp_path) is None
    # Nor is what looks from inside the program's.
    probe = ["/x/wrappers/probe/rank_report.py", 37, "_mapped", 1.0]
    own = ["/x/probe/train.py", 1, "step", 1.0]
    (tmp_path / "rank-1.10.json").write_text(json.dumps([probe, own]))
    found = read(tmp_path)
    assert found is not None
    assert (found.ranks, found.own_s) == (1, {"probe/train.py:1 step": 1.0})


names = st.sampled_from(["load", "step", "wait", "exchange"])
made = st.builds(Profile, st.just(1), st.dictionaries(names, st.floats(1e-6, 1e4), min_size=1))


@given(made, made)
def test_shares_change_as_much_up_as_down(before: Profile, after: Profile) -> None:
    found = changes(before, after)
    assert {change.function for change in found} == {*before.own_s, *after.own_s}
    assert sum(change.points for change in found) == pytest.approx(0, abs=1e-9)
    sizes = [abs(change.points) for change in found]
    assert sizes == sorted(sizes, reverse=True)
