"""Does a running job still measure what it did? Its repeats of one setting, over time. Pure.

Clocks, memory, caches and what the last setting left in the loader's buffers may change a job
while it runs. So in every `EVERY` windows of a job at least one repeats a setting, that of the
best. Where a repeat differs from the setting's earlier windows in this job by more than
`DEVIATIONS` standard errors and more than `LEAST`, it is made once more; if that one differs
too, to the same side, the job has drifted. It is ended, and its windows since the last one that
agreed are set aside. One odd window alone proves nothing: every tenth or so is slow by chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tuner.model import Exclusion, ExclusionKind, Finished, LaunchRecord, Setting, Stopped, wording
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.paired_differences import pooled_spread
from tuner.study.running import Job, has_drifted, running

#: In so many windows of a job one at least is a repeat.
EVERY = 6

#: What is no drift: less than this share, or less than this many standard errors.
LEAST, DEVIATIONS = 0.05, 3.0

#: So many jobs of a study are ended for it; then it is just so.
MOST_JOBS = 2

#: What is further off than this is an accident of one window, and no measure of the noise.
_ACCIDENT = 0.25


@dataclass(frozen=True)
class JobDrift:
    """A change of the running job.

    Attributes:
        setting: The (canonical) setting that shows it.
        ratio: Its last time over those before: 1.12 is 12 % longer.
        numbers: The launches to set aside, since the last one that agreed.
        proven: False: a single window differs, the setting is to be measured again.
        exclusion: What is said of it, and what they are set aside with.
    """

    setting: Setting
    ratio: float
    numbers: tuple[int, ...]
    proven: bool
    exclusion: Exclusion


def due(plan: History, job: Job, *, stays: bool) -> Setting | None:
    """The (canonical) setting to repeat now in the running job, to see whether that changed.

    Args:
        plan: The study.
        job: What runs.
        stays: Whether the next window would be one of this job too.
    """
    suspected = drift(plan)
    if suspected is not None:
        return suspected.setting
    counted = estimates.counted(job.windows)
    canonical = plan.pooling.canonical
    seen: set[Setting] = set()
    since = 0
    for record in counted:
        setting = canonical(record.setting)
        since = 0 if setting in seen else since + 1
        seen.add(setting)
    return _best(counted, canonical) if stays and since >= EVERY else None


def drift(plan: History) -> JobDrift | None:
    """Whether the last window shows that the running job changed; ``None``: it does not."""
    job = running(plan)
    if job is None or _drifted_jobs(plan.records) >= MOST_JOBS:
        return None
    canonical = plan.pooling.canonical
    windows = [(r, x) for r in estimates.counted(job.windows) if (x := _log(r)) is not None]
    if not windows or windows[-1][0].number != plan.records[-1].number:
        return None
    setting = canonical(windows[-1][0].setting)
    own = [(r.number, x) for r, x in windows if canonical(r.setting) == setting]
    sd = spread(plan, without=setting)
    for last in (2, 1):
        if len(own) > last and (ratio := _change(own, last, sd)) is not None:
            return _found(job, setting, ratio, own[-last - 1][0], proven=last == 2)
    return None


def spread(plan: History, *, without: Setting | None = None) -> float:
    """What windows of a setting differ by in one job: the logarithm's standard deviation.

    Args:
        plan: The study.
        without: A setting under suspicion, which is no measure.
    """
    canonical = plan.pooling.canonical
    groups: dict[tuple[int, Setting], list[float]] = {}
    for record in estimates.counted(plan.records):
        window, setting = record.outcome.window, canonical(record.setting)
        time = _log(record) if record.outcome.samples else None
        if window is not None and time is not None and setting != without:
            groups.setdefault((window.job, setting), []).append(time)
    # of two that are far apart none is left
    told = (kept for logs in groups.values() if (kept := _without_accidents(logs)))
    sd, _ = pooled_spread(told)
    return sd


def _without_accidents(logs: Sequence[float]) -> list[float]:
    middle = statistics.median(logs)
    return [x for x in logs if abs(x - middle) <= _ACCIDENT]


def _change(own: Sequence[tuple[int, float]], last: int, sd: float) -> float | None:
    """The ratio of the last windows of a setting to those before, where all of them differ.

    Args:
        own: (number, logarithm of the time) of each.
        last: How many of the latest are held against the others.
        sd: What they differ by, by chance.
    """
    before = [x for _, x in own[:-last]]
    middle = statistics.median(before)
    limit = max(math.log1p(LEAST), DEVIATIONS * sd * math.sqrt(1 + 1 / len(before)))
    away = [x - middle for _, x in own[-last:]]
    if min(away) > limit or max(away) < -limit:
        return math.exp(statistics.fmean(away))
    return None


def _found(job: Job, setting: Setting, ratio: float, agreed: int, *, proven: bool) -> JobDrift:
    numbers = tuple(r.number for r in estimates.counted(job.windows) if r.number > agreed)
    text = f"the running job drifted: the same setting took {wording.changed(ratio)} than before"
    why = Exclusion(ExclusionKind.JOB_DRIFTED, text)
    return JobDrift(setting, ratio, numbers, proven, why)


def _drifted_jobs(records: Iterable[LaunchRecord]) -> int:
    return len({
        r.outcome.window.job
        for r in records
        if r.outcome.window is not None and has_drifted(r.outcome)
    })  # fmt: skip


def _best(
    records: Iterable[LaunchRecord], canonical: Callable[[Setting], Setting]
) -> Setting | None:
    """The quickest setting of a job."""
    found = estimates.best(estimates.measurements(records, canonical))
    return None if found is None else found.setting


def _log(record: LaunchRecord) -> float | None:
    """The logarithm of what a window took, or was going to take."""
    ending = record.outcome.ending
    if isinstance(ending, Finished) and ending.elapsed_s > 0:
        return math.log(ending.elapsed_s)
    if isinstance(ending, Stopped) and ending.projection_s > 0:
        return math.log(ending.projection_s)
    return None
