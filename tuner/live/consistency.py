"""Do windows of a setting agree with its launches? Pure.

Every setting that has windows and launches is compared: the logarithm of live over cold. Windows of
one job have its start in common, so they count as one. If all settings are off by the same factor,
windows still rank as launches do: that is a bias of the scale, and no disagreement. A single
setting is off only beyond what the scale may be off by (`SCALE_SD`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from tuner.model import Exclusion, ExclusionKind, LaunchRecord, Setting, wording
from tuner.stats import estimates, noise

#: No disagreement is less than this share, nor less than so many standard errors.
LEAST, DEVIATIONS = 0.05, 2.5

#: How far the scale of windows is off, as the logarithm's standard deviation: it is learnt from a
#: few launches, and the machine is another one at the confirmation (docs/live.md has the cases).
SCALE_SD = 0.1


def live_vs_cold(
    records: Sequence[LaunchRecord], canonical: Callable[[Setting], Setting]
) -> Exclusion | None:
    """Why all windows are to be excluded; ``None``: no setting is off beside the others.

    Args:
        records: The launches of a study.
        canonical: Gives settings that come to the same one form.
    """
    found: dict[Setting, tuple[list[LaunchRecord], list[LaunchRecord]]] = {}
    for record in estimates.counted(records):
        if any(sample.elapsed_s > 0 for sample in record.outcome.samples):
            sides = found.setdefault(canonical(record.setting), ([], []))
            sides[record.job is None].append(record)
    both = {setting: sides for setting, sides in found.items() if all(sides)}
    logs = {
        setting: [[math.log(r.outcome.samples[0].elapsed_s) for r in side] for side in sides]
        for setting, sides in both.items()
    }
    sd, _ = noise.pooled((side for sides in logs.values() for side in sides), noise.RUNS)
    offs: dict[Setting, tuple[float, float]] = {}  # with the standard error
    for setting, (live, cold) in logs.items():
        jobs = {record.job for record in both[setting][0]}
        se = sd * math.sqrt(1 / len(jobs) + 1 / len(cold))
        offs[setting] = statistics.median(live) - statistics.median(cold), se

    worst: tuple[float, float, Setting] | None = None
    for setting, (off, se) in offs.items():
        others = [each for other, each in offs.items() if other != setting]
        scale = statistics.fmean(each for each, _ in others) if others else 0.0
        scale_se = math.hypot(*(each for _, each in others)) / len(others) if others else SCALE_SD
        limit = max(DEVIATIONS * math.hypot(se, scale_se), math.log1p(LEAST))
        share = round(abs(off - scale) / limit, 6)  # of two, each is as far from the other
        if share > 1 and (worst is None or (share, abs(off)) > (worst[0], abs(worst[1]))):
            worst = share, off, setting
    if worst is None:
        return None
    _, off, setting = worst
    return Exclusion(
        ExclusionKind.LIVE_DISAGREES,
        f"live and cold disagree: {setting} took {wording.changed(math.exp(off))} in a running job"
        " than in launches of its own",
    )
