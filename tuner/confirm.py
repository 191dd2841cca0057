"""Best against baseline, launched in turn (ABBA): is it faster, and by how much? Pure.

The looks are fixed in advance and the error of 5 % is shared out among them (Bonferroni: valid
however the looks hang together), so stopping at any look, for any reason, keeps the coverage:
the chance that *any* of the intervals misses the truth is at most 5 %.

The interval is that of Hodges & Lehmann from the exact null distribution of Wilcoxon's signed
rank statistic (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., sections
3.2-3.3) on the logarithms of the pairs' ratios. It needs the log ratios to be independent and
symmetric about the truth, whatever their spread. With n pairs its smallest error is
2 / 2**n: 6 pairs are the fewest that can say anything at 5 %, and get 1/32 of it; the later
looks share the rest.

Where the search already saw that the baseline is several times slower, its launches are cut at
a bound and the claim is one-sided, "at least": 5 pairs that are all beyond it have the error
1/32. Which plan it is must be decided before the first pair, from the search's data alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

#: (pairs, the error this look may spend); together at most 5 %.
Looks = tuple[tuple[int, float], ...]
TWO_SIDED: Looks = ((6, 1 / 32), (10, 0.0075), (16, 0.006), (24, 0.005))
#: The same where only the lower end is claimed.
AT_LEAST: Looks = ((5, 1 / 32), (8, 0.008), (12, 0.0105))

#: From this many pairs on an interval that excludes 1 is taken as it is: more pairs narrow it
#: with their square root only.
_PLENTY = 16

#: A gain is claimed where it is proven to be more than this share: less pays for nobody's
#: change of settings, and hosts differ by as much from one day to the next.
WORTH = 0.01

Claim = Literal["faster", "slower", "no significant gain"]
Side = Literal["best", "reference"]


@dataclass(frozen=True)
class Pair:
    """One run of each; where the reference was cut, ``reference_s`` is a bound."""

    reference_s: float
    best_s: float

    @property
    def log_ratio(self) -> float:
        """How much faster the best was, as a logarithm."""
        return math.log(self.reference_s / self.best_s)


@dataclass(frozen=True)
class Finding:
    """What the pairs prove: the ratio is reference over best."""

    ratio: float
    low: float
    high: float  # infinite where only the lower end is claimed
    pairs: int
    claim: Claim

    @property
    def at_least(self) -> bool:
        """True where only the lower end is claimed."""
        return math.isinf(self.high)


@dataclass(frozen=True)
class Next:
    """The two launches to make now, in this order, and where the reference may be cut."""

    order: tuple[Side, Side]
    reference_limit_s: float | None


def plan(seen_ratio: float) -> float | None:
    """Where the reference is cut, in multiples of the best; ``None``: it runs to its end.

    Args:
        seen_ratio: What the search, before the first pair, takes the ratio to be.
    """
    return min(3.0, seen_ratio / 1.7) if seen_ratio > 3 else None


def judge(
    pairs: Sequence[Pair],
    *,
    at_least: float | None = None,
    precision: float = 0.05,
    nothing: float = 0.005,
    may_go_on: bool = True,
) -> Finding | Next:
    """What the pairs so far prove, or which pair comes next.

    Args:
        pairs: In the order they were launched.
        at_least: The multiple of `plan`; the same for every pair.
        precision: The half-width, as a share of the ratio, that is good enough.
        nothing: A gain below this is not pursued: giving up claims nothing, so it is free.
        may_go_on: False once the confirmation has cost enough: what is proven at the next
            look is then final. Stopping for any reason keeps the coverage.
    """
    looks = AT_LEAST if at_least else TWO_SIDED
    error = dict(looks).get(len(pairs))
    if error is not None:
        found = _finding(pairs, error, one_sided=at_least is not None)
        over = not may_go_on or len(pairs) >= looks[-1][0]
        if over or _settled(found, precision, nothing):
            return found
    order: tuple[Side, Side] = ("best", "reference") if len(pairs) % 2 else ("reference", "best")
    limit_s = None
    if at_least and pairs:
        limit_s = at_least * sorted(pair.best_s for pair in pairs)[len(pairs) // 2]
    return Next(order, limit_s)


def _settled(found: Finding, precision: float, nothing: float) -> bool:
    """True where more pairs would change nothing that matters."""
    if found.claim == "faster":
        half = (found.high - found.low) / 2 / found.ratio
        return found.at_least or half < precision or found.pairs >= _PLENTY
    return found.ratio < 1 + nothing or found.high < 1 + precision


def _finding(pairs: Sequence[Pair], error: float, *, one_sided: bool) -> Finding:
    # a one-sided error is half of a two-sided one
    logs = [pair.log_ratio for pair in pairs]
    result = interval(logs, 2 * error if one_sided else error)
    assert result is not None, "each look has enough pairs for its error"
    ratio, low, high = map(math.exp, result)
    if one_sided:
        high = math.inf
    claim: Claim = "faster" if low > 1 + WORTH else "slower" if high < 1 else "no significant gain"
    return Finding(ratio, low, high, len(pairs), claim)


def interval(logs: Sequence[float], error: float) -> tuple[float, float, float] | None:
    """(estimate, low, high) of the centre of symmetry; ``None`` with too few values.

    Args:
        logs: Independent values, symmetric about the same centre.
        error: The chance, at most, that the interval misses the centre.
    """
    cut = _trimmed(len(logs), error)
    if cut is None:
        return None
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    count = len(walsh)
    middle = (walsh[(count - 1) // 2] + walsh[count // 2]) / 2
    return middle, walsh[cut], walsh[count - 1 - cut]


@cache
def _signed_rank_counts(n: int) -> tuple[int, ...]:
    """How many of the 2**n sign patterns give each signed-rank sum 0 .. n(n+1)/2."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    return tuple(counts)


@cache
def _trimmed(n: int, error: float) -> int | None:
    """How many Walsh averages to leave out at each end; ``None``: too few pairs."""
    below, trimmed = 0, None
    for total, count in enumerate(_signed_rank_counts(n)):
        below += count
        if 2 * below > error * 2**n:
            break
        trimmed = total
    return trimmed
