"""Settings that were measured both in windows and in launches: how far off are the windows? Pure.

The logarithm of live over cold, with a standard error from the spread that windows and launches
have within their groups. Windows of one job have its start in common, so they count as one. The
plan has all windows on one scale already, that of its cold launches.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.model import LaunchRecord, Setting
from tuner.stats import estimates
from tuner.study.history import History

#: What runs of a setting differ by where little is known of it: as the logarithm's standard
#: deviation, and the number of repeats that this figure counts as.
_USUAL_SD, _USUAL_WORTH = 0.05, 4

#: How far the scale of windows is off, as the logarithm's standard deviation: it is learnt from a
#: few launches, and the machine is another one when the proof is made (docs/live.md has the cases).
SCALE_SD = 0.1

#: The normal distribution's quantile for 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Pair:
    """A setting measured both ways; logarithms."""

    setting: Setting
    windows: tuple[LaunchRecord, ...]
    live: float
    cold: float
    se: float

    @property
    def off(self) -> float:
        """The logarithm of live over cold."""
        return self.live - self.cold


def compared(plan: History) -> tuple[list[Pair], int]:
    """The settings measured both ways, and the degrees of freedom of their errors."""
    groups = _both_ways(plan)
    if not groups:
        return [], _USUAL_WORTH
    logs = {
        setting: ([_log(r) for r in live], [_log(r) for r in cold])
        for setting, (live, cold) in groups.items()
    }
    sd, freedom = pooled_spread([side for sides in logs.values() for side in sides])
    pairs = []
    for setting, (live, _) in groups.items():
        jobs = {record.outcome.window.job for record in live if record.outcome.window}
        windows, launches = logs[setting]
        se = sd * math.sqrt(1 / len(jobs) + 1 / len(launches))
        middles = statistics.median(windows), statistics.median(launches)
        pairs.append(Pair(setting, tuple(live), middles[0], middles[1], se))
    return pairs, freedom


def _both_ways(plan: History) -> dict[Setting, tuple[list[LaunchRecord], list[LaunchRecord]]]:
    """The windows and the launches of each (canonical) setting that has both."""
    groups: dict[Setting, tuple[list[LaunchRecord], list[LaunchRecord]]] = {}
    for record in estimates.counted(plan.records):
        if any(sample.elapsed_s > 0 for sample in record.outcome.samples):
            sides = groups.setdefault(plan.pooling.canonical(record.setting), ([], []))
            sides[record.outcome.window is None].append(record)
    return {setting: sides for setting, sides in groups.items() if all(sides)}


def average(pairs: Sequence[Pair]) -> tuple[float, float]:
    """What they are off by on average, with its standard error; there is one at least."""
    weights = [1 / pair.se**2 for pair in pairs]
    return statistics.fmean([pair.off for pair in pairs], weights), 1 / math.sqrt(sum(weights))


def scale_bias(others: Sequence[Pair]) -> tuple[float, float]:
    """What any setting is off by for the scale alone, as others show it, with its standard error.

    Before they do it is 0 give or take `SCALE_SD`.
    """
    if not others:
        return 0.0, SCALE_SD
    off, se = average(others)
    weight = 1 / (1 + (se / SCALE_SD) ** 2)
    return weight * off, math.sqrt(weight) * se


def pooled_spread(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """The pooled standard deviation within groups of logarithms, and its degrees of freedom.

    What is usual counts with it, so that few repeats by chance alike do not seem to be exact.
    """
    squares, freedom = estimates.within(groups)
    squares, freedom = squares + _USUAL_WORTH * _USUAL_SD**2, freedom + _USUAL_WORTH
    return math.sqrt(squares / freedom), freedom


def student(freedom: int) -> float:
    """Student's quantile for 95 % (Abramowitz & Stegun 26.7.5; within 0.5 % from 4 on)."""
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2


def _log(record: LaunchRecord) -> float:
    """The logarithm of a measured figure."""
    (sample,) = record.outcome.samples
    return math.log(sample.elapsed_s)
