"""How a job scales: speed-ups with their intervals, and what Amdahl's law still allows. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tuner.stats.confirm import Evidence, Look


class SpeedUp(NamedTuple):
    """A ratio of times with its 95 % interval: from 0 to infinity if launches disagree."""

    ratio: float
    low: float
    high: float

    def times(self, factor: float) -> SpeedUp:
        """The same, as many times as large."""
        return SpeedUp(*(factor * each for each in self))


def speed_up(before: Sequence[float], after: Sequence[float], *, error: float = 0.05) -> SpeedUp:
    """How many times faster the second is, by rounds; an interval by ranks may err so much."""
    look, pairs = Look(len(after), len(before)), min(len(before), len(after))
    if pairs >= 6:  # enough to go by ranks: 2 / 2**6 is below the error
        look = Look(pairs, pairs, error)
    found = Evidence().two_sided(look, before[: look.references], after[: look.bests])
    center = math.log(statistics.median(before) / statistics.median(after))
    return SpeedUp(*map(math.exp, found or (center, -math.inf, math.inf)))


def least_time(seen: Sequence[tuple[int, Sequence[float]]], ranks: int) -> float:
    """The least time on so many ranks by Amdahl's law (AFIPS 1967); 0: too little was seen.

    ``seen`` has fewer ranks, the fewest first, with their times.
    """
    least = 0.0
    for number, times in seen[1:]:
        first, before = seen[0]
        gain, more = speed_up(before, times).high, number / first  # noise rules nothing out
        serial = min(1.0, max(0.0, (1 / gain - 1 / more) / (1 - 1 / more)))
        least = max(least, statistics.median(before) * (serial + (1 - serial) * first / ranks))
    return least
