"""What ranks alone tell of a centre or of a difference, exactly. Pure.

The null distributions of Wilcoxon's signed rank and rank sum statistics, and the interval of
Hodges & Lehmann from the former (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods,
3rd ed., sections 3.2-3.3 and 4.1-4.3).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cache


def interval(logs: Sequence[float], error: float) -> tuple[float, float, float] | None:
    """(estimate, low, high) of the centre of symmetry; ``None`` with too few values.

    Args:
        logs: Independent values, symmetric about the same centre.
        error: The chance, at most, that the interval misses the centre.
    """
    trimmed = _trimmed(signed_rank_counts(len(logs)), error / 2)
    if trimmed is None:
        return None
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    return statistics.median(walsh), walsh[trimmed], walsh[-1 - trimmed]


@cache
def signed_rank_counts(n: int) -> tuple[int, ...]:
    """How many of the 2**n sign patterns give each signed-rank sum 0 .. n(n+1)/2."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    return tuple(counts)


@cache
def rank_sum_trimmed(m: int, n: int, error: float) -> int | None:
    """How many of the m * n differences to leave out at the low end."""
    return _trimmed(rank_sum_counts(m, n), error)


@cache
def rank_sum_counts(m: int, n: int) -> tuple[int, ...]:
    """How many arrangements of m and n values give each Mann-Whitney count 0 .. m * n."""
    if m == 0 or n == 0:
        return (1,)
    # The largest value is one of the m, above all n, or one of the n.
    of_m, of_n = rank_sum_counts(m - 1, n), rank_sum_counts(m, n - 1)
    counts = [0] * (m * n + 1)
    for total, count in enumerate(of_m):
        counts[total + n] += count
    for total, count in enumerate(of_n):
        counts[total] += count
    return tuple(counts)


def _trimmed(counts: Sequence[int], error: float) -> int | None:
    """The largest statistic whose lower tail has at most this probability."""
    below, trimmed, total = 0, None, sum(counts)
    for statistic, count in enumerate(counts):
        below += count
        if below > error * total * (1 + 1e-12):
            break
        trimmed = statistic
    return trimmed
