"""What the launches so far show: the estimate of each setting, and the noise of the job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tuner.model import Purpose
from tuner.search.grid import Key
from tuner.search.stopper import Noise
from tuner.search.throughput import Pace
from tuner.stats.noise import INTERVALS, RUNS, spread

Ending = Literal["finished", "killed", "failed"]

#: A run that differs by more from its setting's median is an outlier. A logarithm.
OUTLIER = 0.25


@dataclass(frozen=True)
class SearchObservation:
    """One launch as the search needs it; ``setting`` is ``None`` for an unknown baseline.

    A killed one has a ``projection_s``, with ``projection_log_sd``. Of a failed one ``by_chance``
    says that another launch may well work, ``is_bound`` that settings which ask for more fail too.
    ``in_job``: a window of a running job; ``is_running``: not ended, with a guess for its time.
    """

    setting: Key | None
    ending: Ending
    purpose: Purpose
    wall_s: float
    elapsed_s: float | None = None
    projection_s: float | None = None
    projection_log_sd: float = 0.3
    startup_s: float | None = None
    pace: Pace | None = None
    by_chance: bool = False
    is_bound: bool = False
    in_job: bool = False
    is_running: bool = False


@dataclass
class Group:
    """The launches of one setting."""

    key: Key
    finished: list[float] = field(default_factory=list)  # log seconds
    projected: list[tuple[float, float]] = field(default_factory=list)  # (log seconds, sd)
    failures: int = 0
    launches: int = 0
    is_bound: bool = False
    is_running: bool = False

    @property
    def only_failed(self) -> bool:
        """Whether all launches of the setting failed."""
        return self.failures > 0 and not self.finished and not self.projected

    def estimate(self) -> tuple[float, float, float] | None:
        """Return the log seconds without slow outliers, the runs, and a variance beside theirs."""
        if self.finished:
            ordered = sorted(self.finished)
            # The low median: of two runs that differ, the slow one is the outlier.
            middle = ordered[(len(ordered) - 1) // 2]
            usual = [x for x in ordered if abs(x - middle) <= OUTLIER]
            extra_var = RUNS.sd**2 if len(usual) == 1 < len(ordered) else 0.0
            return sum(usual) / len(usual), float(len(usual)), extra_var
        if self.projected:
            log_s, sd = min(self.projected)
            return log_s, 1.0, sd * sd
        return None


Groups = dict[Key, Group]


def log_times(groups: Groups) -> dict[Key, float]:
    """Return the logarithm of the estimated time of each setting that has one."""
    return {key: estimate[0] for key, g in groups.items() if (estimate := g.estimate())}


#: A study may have many thousand settings: this many of the fastest are candidates again.
_MOST_AGAIN = 500


def fastest(groups: Groups, most: int = _MOST_AGAIN) -> list[Key]:
    """Return the ``most`` settings with the lowest estimates, and all without an estimate."""
    if len(groups) <= most:
        return list(groups)
    log_s = log_times(groups)
    ordered = sorted(log_s, key=lambda key: log_s[key])
    return [*ordered[:most], *(key for key in groups if key not in log_s)]


def grouped(history: Sequence[SearchObservation]) -> Groups:
    """Group the launches by setting, in the order of each setting's first one."""
    groups: Groups = {}
    for launch in history:
        if launch.setting is None:
            continue
        group = groups.setdefault(launch.setting, Group(launch.setting))
        group.launches += 1
        group.is_running |= launch.is_running
        if launch.ending == "finished" and launch.elapsed_s is not None:
            group.finished.append(math.log(launch.elapsed_s))
        elif launch.ending == "killed" and launch.projection_s is not None:
            group.projected.append((math.log(launch.projection_s), launch.projection_log_sd))
        else:
            group.failures += 1
            group.is_bound |= launch.is_bound
    return groups


def noise(history: Sequence[SearchObservation], run_sd: float) -> Noise:
    """Return what the launches so far show of start-up, log intervals and warm-up."""
    startups = [launch.startup_s for launch in history if launch.startup_s]
    paces = [launch.pace for launch in history if launch.pace is not None]
    noise = Noise(
        run_sd=run_sd,
        startup_s=float(np.median(startups)) if startups else None,
        interval=max((pace.interval or 0 for pace in paces), default=0) or None,
    )
    warm = [p.warm_up_iterations for p in paces if p.warm_up_iterations is not None]
    if len(warm) >= 2:
        highest, typical = max(4.0, 2.0 * max(warm)), float(np.median(warm))
        noise = replace(noise, warm_up_iterations=highest, warm_up_typical=typical)
    spreads = [pace.cv for pace in paces if pace.cv is not None]
    if len(spreads) >= 2:
        pace_cv = spread(sum(cv * cv for cv in spreads), len(spreads), INTERVALS)
        noise = replace(noise, pace_cv=pace_cv)
    return noise
