"""Exact distributions of ranks, and the interval from them."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.stats.wilcoxon import interval, signed_rank_counts


@given(st.integers(0, 7))
def test_signed_ranks_are_what_counting_gives(n: int) -> None:
    counted: Counter[int] = Counter()
    for pattern in itertools.product((0, 1), repeat=n):
        counted[sum(rank for rank, up in enumerate(pattern, start=1) if up)] += 1
    assert signed_rank_counts(n) == tuple(counted[t] for t in range(n * (n + 1) // 2 + 1))


def test_the_smallest_errors() -> None:
    """6 pairs all of one sign: 2 of 64."""
    assert interval([0.1] * 6, 2 / 64) is not None
    assert interval([0.1] * 6, 2 / 65) is None
    assert interval([0.1] * 5, 0.05) is None


def test_the_interval_is_exact() -> None:
    """All sign patterns of distinct sizes are equally likely: count those it misses."""
    sizes = [1.0, 2.3, 3.1, 4.7, 5.9, 7.2, 8.8, 9.4]
    for error in (1 / 32, 0.1):
        above = below = 0
        for signs in itertools.product((-1, 1), repeat=len(sizes)):
            result = interval([s * x for s, x in zip(signs, sizes, strict=True)], error)
            assert result is not None
            above += result[1] > 0
            below += result[2] < 0
        assert above == below
        assert 0 < above + below <= error * 2 ** len(sizes)


@given(st.lists(st.floats(-2, 2), min_size=8, max_size=12), st.floats(-1, 1))
def test_a_smaller_error_is_no_narrower_and_all_moves_with_the_values(
    logs: list[float], by: float
) -> None:
    wide, narrow, moved = (
        interval(x, e) for x, e in ((logs, 0.01), (logs, 0.1), ([x + by for x in logs], 0.1))
    )
    assert wide is not None and narrow is not None and moved is not None
    assert wide[1] <= narrow[1] <= narrow[0] <= narrow[2] <= wide[2]
    assert moved == pytest.approx([x + by for x in narrow], abs=1e-9)
