"""How a job scales: speed-ups with their intervals, and what Amdahl's law still allows. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tuner.stats.confirm import log_ratio

#: From so many launches of both on the interval goes by ranks: 2 / 2**6 is below the error.
_BY_RANKS, _ERROR = 6, 0.05


class SpeedUp(NamedTuple):
    """A ratio of times with its 95 % interval: from 0 to infinity if launches disagree."""

    ratio: float
    low: float = 0.0
    high: float = math.inf

    def times(self, factor: float) -> SpeedUp:
        """The same, as many times as large."""
        return SpeedUp(*(factor * each for each in self))


def speed_up(before: Sequence[float], after: Sequence[float]) -> SpeedUp:
    """How many times faster the second is: its times and those of the first, by their rounds."""
    pairs = min(len(before), len(after))
    if pairs >= _BY_RANKS:
        found = log_ratio(before[:pairs], after[:pairs], _ERROR)
    else:
        found = log_ratio(before, after, None)
    if found is None:
        return SpeedUp(statistics.median(before) / statistics.median(after))
    return SpeedUp(*map(math.exp, found))


def serial_share(gain: float, more: float) -> float:
    """The share of the work that more ranks make no faster (Amdahl, AFIPS 1967), from 0 to 1.

    ``gain`` is the speed-up that was seen with ``more`` times the ranks, above 1.
    """
    return min(1.0, max(0.0, (1 / gain - 1 / more) / (1 - 1 / more)))


def least_time(seen: Sequence[tuple[int, Sequence[float]]], ranks: int) -> float:
    """The least time on so many ranks by Amdahl's law; 0: too little was seen.

    ``seen`` has fewer ranks, the fewest first, with their times. Of each speed-up the upper end
    counts, so that noise rules nothing out.
    """
    least = 0.0
    for number, times in seen[1:]:
        first, before = seen[0]
        share = serial_share(speed_up(before, times).high, number / first)
        shrunk = share + (1 - share) * first / ranks
        least = max(least, statistics.median(before) * shrunk)
    return least
