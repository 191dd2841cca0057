"""Judges pairs of launches by ranks alone, exactly (``--confirm exact``). Pure.

The null distribution of Wilcoxon's signed rank statistic, and the interval of Hodges & Lehmann from
it (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., sections 3.2-3.3), on
the logarithms of the pairs' ratios. It needs them to be independent and symmetric about the truth,
whatever their spread. The looks share the error of 5 % (Bonferroni: valid however they depend on
each other). With n pairs the smallest error is 2 / 2**n: 6 pairs are the fewest that can prove
anything at 5 %, and their error is 1/32.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

from tuner.model import Claim, Finding
from tuner.stats.pairs import WORTH

#: After which numbers of pairs the evidence is looked at, with the error of each look.
LOOKS = {6: 1 / 32, 10: 0.0075, 16: 0.006, 24: 0.005}

#: The comparison of a gain ends once the half-width of its interval is below this share of the
#: ratio, or after this many pairs: further ones narrow it with their square root only.
_NARROW, _PLENTY = 0.05, 16


def judge_by_ranks(
    log_ratios: Sequence[float], precision: float, *, at_least: bool = False
) -> Finding | None:
    """Return what pairs in turn prove by the last look; ``None``: another pair has to tell.

    For the arguments see :func:`tuner.stats.pairs.judge`.
    """
    pairs = max((look for look in LOOKS if look <= len(log_ratios)), default=0)
    logs = interval(log_ratios[:pairs], LOOKS[pairs]) if pairs else None
    if logs is None:
        return None
    ratio, low, high = map(math.exp, logs)
    claim: Claim = "inconclusive"
    if low > 1 + WORTH:
        claim = "faster"
    elif high < 1 + precision and not at_least:
        claim = "slower" if high < 1 else "no gain worth having"
    is_settled = claim in {"slower", "no gain worth having"} or (
        claim == "faster" and ((high - low) / 2 / ratio < _NARROW or pairs >= _PLENTY or at_least)
    )
    if not is_settled and pairs < max(LOOKS):
        return None
    return Finding(ratio, low, None if at_least else high, pairs, claim)


def interval(logs: Sequence[float], error: float) -> tuple[float, float, float] | None:
    """Return (estimate, low, high) of the centre of symmetry; ``None`` with too few values.

    The values are independent, and symmetric about the same centre, which the interval misses with
    this chance at most.
    """
    counts = _signed_rank_counts(len(logs))
    patterns, trimmed, most_patterns = 0, None, error / 2 * sum(counts) * (1 + 1e-12)
    for statistic, count in enumerate(counts):
        patterns += count
        if patterns > most_patterns:
            break
        trimmed = statistic  # this many averages are cut off at each end
    if trimmed is None:
        return None
    walsh_averages = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    center = statistics.median(walsh_averages)
    return center, walsh_averages[trimmed], walsh_averages[-1 - trimmed]


@cache
def _signed_rank_counts(n: int) -> tuple[int, ...]:
    """Return how many of the 2**n sign patterns give each signed-rank sum 0 .. n(n+1)/2."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    return tuple(counts)
