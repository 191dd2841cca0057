"""How a job scales: speed-ups with their intervals. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tuner.model import Finding


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
