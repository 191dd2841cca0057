"""Did the machine change while it was measured? Repeats of the same settings, over time. Pure.

**Drift.** Kendall's test for a trend, within each setting and summed over all of them (the
"seasonal" test of Hirsch, Slack & Smith, Water Resources Research 18 (1982) 107-121). Where
nothing changes, every order of a setting's times is as likely as any other, so the distribution
of the number of pairs in order is exact, whatever the noise. That holds only for launches that
were not chosen by their times: contenders of a search were quick once by luck, and look slower
when they are launched again. Callers leave those out.

**Move.** Between two stretches of work with a long pause a machine may have changed for good
(another kernel, another clock): the settings measured in both then differ by the same factor.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

#: (when: any number that grows, time in s) of each launch of one setting.
Times = Sequence[tuple[float, float]]

#: The chance, at most, that a machine which does not drift is said to.
ERROR = 0.01

#: Smaller changes are no matter, s per s.
MATTERS = 0.02

#: With more pairs than this the distribution is as good as normal.
_EXACT_PAIRS = 600


@dataclass(frozen=True)
class Change:
    """``ratio`` is the time at the end over that at the start: 1.12 is 12 % longer."""

    ratio: float
    launches: int


def drift(settings: Sequence[Times]) -> Change | None:
    """The drift over the launches, ``None`` where there is none that can be told from chance.

    Args:
        settings: The launches of each setting, in any order.
    """
    groups = [sorted(times) for times in settings if len(times) > 1]
    pairs = [pair for times in groups for pair in itertools.combinations(times, 2)]
    if not pairs:
        return None
    falling = sum((a[1] > b[1]) + (a[1] == b[1]) / 2 for a, b in pairs)
    sizes = tuple(sorted(len(times) for times in groups))
    if _two_sided(falling, sizes) > ERROR:
        return None
    slopes = [math.log(b[1] / a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]]
    moments = [at for times in groups for at, _ in times]
    ratio = math.exp(statistics.median(slopes) * (max(moments) - min(moments)))
    return None if abs(ratio - 1) < MATTERS else Change(ratio, len(moments))


def _two_sided(falling: float, sizes: tuple[int, ...]) -> float:
    """The chance of so few, or so many, falling pairs where every order is as likely."""
    pairs = sum(n * (n - 1) // 2 for n in sizes)
    fewest = min(falling, pairs - falling)
    if pairs > _EXACT_PAIRS:
        variance = sum(n * (n - 1) * (2 * n + 5) / 72 for n in sizes)
        z = (fewest + 0.5 - pairs / 2) / math.sqrt(variance)
        return min(1.0, math.erfc(-z / math.sqrt(2)))
    counts = _inversions(sizes)
    return min(1.0, 2 * sum(counts[: math.floor(fewest) + 1]) / sum(counts))


@cache
def _inversions(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """In how many orders of groups of these sizes 0, 1, … pairs are the wrong way round."""
    counts = [1]
    for length in (k for n in sizes for k in range(2, n + 1)):
        longer = [0] * (len(counts) + length - 1)
        for number, count in enumerate(counts):
            for shift in range(length):
                longer[number + shift] += count
        counts = longer
    return tuple(counts)
