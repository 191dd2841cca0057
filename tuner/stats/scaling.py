"""How a job scales: speed-ups with their intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tuner.model import Finding
from tuner.stats import noise
from tuner.stats.ranks import interval

#: From this many launches on an interval goes by ranks, which errs in this share of cases.
BY_RANKS, ERROR = 6, 0.05

#: With fewer it is this many standard errors wide on each side, by a spread that is shrunk towards
#: the usual one. It has no end if the runs of a side differ by more than this factor.
DEVIATIONS, OUTLIER = 6.0, 1.5


class SpeedUp(NamedTuple):
    """A ratio of times with its 95 % interval: from 0 to infinity if launches disagree."""

    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, finding: Finding) -> SpeedUp:
        """Return the speed-up that pairs of launches show."""
        return cls(finding.ratio, finding.low, finding.high or math.inf)

    @property
    def inverse(self) -> SpeedUp:
        """The speed-up the other way round: how many times slower it is."""
        high = 1 / self.low if self.low else math.inf
        return SpeedUp(1 / self.ratio, 1 / self.high, high)

    def times(self, factor: float) -> SpeedUp:
        """Return the speed-up and its interval, as many times as large."""
        return SpeedUp(*(factor * value for value in self))


def speed_up(before: Sequence[float], after: Sequence[float]) -> SpeedUp:
    """Return how many times faster the second is, of launches that were made apart."""
    if min(len(before), len(after)) >= BY_RANKS:
        logs = interval([math.log(a / b) for a, b in zip(before, after, strict=False)], ERROR)
        if logs is not None:
            return SpeedUp(*map(math.exp, logs))
    sides = [[math.log(time_s) for time_s in _usual(side)] for side in (before, after)]
    if any(max(side) - min(side) > math.log(OUTLIER) for side in sides):
        return SpeedUp(statistics.median(before) / statistics.median(after), 0.0, math.inf)
    sd, _ = noise.pooled(sides, noise.RUNS)
    half = DEVIATIONS * sd * math.hypot(*(len(side) ** -0.5 for side in sides))
    center = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
    return SpeedUp(*(math.exp(center + offset) for offset in (0.0, -half, half)))


def _usual(times: Sequence[float]) -> Sequence[float]:
    """Return the times without outliers, far above the median; of fewer than three all."""
    most_s = OUTLIER * statistics.median(times) if len(times) > 2 else math.inf
    return [time_s for time_s in times if time_s <= most_s]


def along(forwards: Iterable[SpeedUp], backwards: Iterable[SpeedUp] = ()) -> SpeedUp:
    """Return the speed-up along a chain of layouts of which each step was measured by itself.

    Each step is taken forwards, or backwards: from the faster layout to the slower one.
    """
    center, below, above = 0.0, 0.0, 0.0
    for gain in (*forwards, *(gain.inverse for gain in backwards)):
        log = math.log(gain.ratio)
        center += log
        below = math.hypot(below, log - math.log(gain.low) if gain.low else math.inf)
        above = math.hypot(above, math.log(gain.high) - log)
    return SpeedUp(*(math.exp(log) for log in (center, center - below, center + above)))
