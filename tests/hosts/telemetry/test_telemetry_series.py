"""A track in bounded room: what must survive when intervals are joined."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.telemetry.sampler import (
    LEAST_POINTS,
    MOST_POINTS,
    Point,
    Series,
    joined,
    points_for,
)

values = st.floats(0, 1e12) | st.integers(0, 100).map(float)
intervals = st.lists(st.tuples(st.floats(0.001, 100), values, values), min_size=1, max_size=120)


def filled(rows: list[tuple[float, float | None, float | None]], most: int) -> Series:
    """One mean (cores) and one peak (memory) in intervals of these lengths."""
    series, now_s = Series(most), 0.0
    for length_s, cores, memory in rows:
        series.add(now_s, now_s + length_s, {"user_cores": cores, "memory_bytes": memory})
        now_s += length_s
    return series


@given(intervals, st.sampled_from([2, 4, 20]))
def test_totals_and_peaks_are_kept(rows: list[tuple[float, float, float]], most: int) -> None:
    points = filled([*rows], most).points
    assert 0 < len(points) <= most
    total = sum(length_s * cores for length_s, cores, _ in rows)
    kept = sum(point.length_s * (point.row["user_cores"] or 0.0) for point in points)
    assert kept == pytest.approx(total, rel=1e-6, abs=1e-9)
    most_bytes = max(memory for _, _, memory in rows)
    assert max(point.row["memory_bytes"] or 0.0 for point in points) == most_bytes


@given(intervals, st.sampled_from([2, 4, 20]))
def test_the_intervals_follow_each_other(rows: list[tuple[float, float, float]], most: int) -> None:
    points = filled([*rows], most).points
    assert points[0].begin_s == 0.0
    assert points[-1].end_s == pytest.approx(sum(length_s for length_s, _, _ in rows))
    assert all(one.end_s == other.begin_s for one, other in pairwise(points))


@given(st.floats(0.001, 10), st.floats(0.001, 10), values, values)
def test_a_mean_lies_between_the_two(first: float, second: float, one: float, other: float) -> None:
    row = joined(
        Point(0.0, first, {"user_cores": one}), Point(first, first + second, {"user_cores": other})
    ).row
    mean = row["user_cores"]
    assert mean is not None
    assert min(one, other) * (1 - 1e-9) <= mean <= max(one, other) * (1 + 1e-9)


def test_what_was_not_seen_takes_no_part() -> None:
    series = filled([(1.0, None, None), (1.0, 4.0, 7.0), (1.0, None, None)], 2)
    first, last = series.points
    assert first.row == {"user_cores": 4.0, "memory_bytes": 7.0}
    assert last.row == {"user_cores": None, "memory_bytes": None}


def test_many_points_are_joined_evenly() -> None:
    series = filled([(1.0, 1.0, 1.0)] * 1000, 8)
    lengths = [point.length_s for point in series.points]
    assert max(lengths) <= 256
    assert set(lengths[:-1]) == {max(lengths)}


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_many_ranks_share_the_room(ranks: int, columns: int) -> None:
    points = points_for(ranks, columns)
    assert LEAST_POINTS <= points <= MOST_POINTS
    assert points % 2 == 0
