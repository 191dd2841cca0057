"""What ranks alone tell of a centre, exactly. Pure.

The null distribution of Wilcoxon's signed rank statistic, and the interval of Hodges & Lehmann from
it (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., sections 3.2-3.3).
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


def _trimmed(counts: Sequence[int], error: float) -> int | None:
    """The largest statistic whose lower tail has at most this probability."""
    below, trimmed, total = 0, None, sum(counts)
    for statistic, count in enumerate(counts):
        below += count
        if below > error * total * (1 + 1e-12):
            break
        trimmed = statistic
    return trimmed
