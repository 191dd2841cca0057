"""Do windows of one setting agree with each other, and with its launches? Pure.

Times of a setting are compared as logarithms, with the spread that runs of a setting have.

**Drift.** Clocks, memory, caches and what the last setting left in the loader's buffers may change
a job while it runs. So of every `EVERY` windows of a job at least one repeats a setting, that of
the best. If the repeat differs from the earlier windows of the setting in this job by more than
`DEVIATIONS` standard errors and more than `LEAST`, it is measured once more; if that one differs
too, to the same side, the job has drifted. It is ended, and its windows since the last one that
agreed are excluded. One odd window alone proves nothing: every tenth or so is slow by chance.

**Live against cold.** Every setting that has windows and launches is compared: live over cold, with
Student's interval. Windows of one job have its start in common, so they count as one. If every
setting is off by the same factor, windows rank as launches do: that is a bias of the scale. The
study reports it, and it is no disagreement. How large it may be is known beforehand (`SCALE_SD`):
a single setting is off only beyond that. If a setting is off by more than its interval and more
than `LEAST` beside the others, all windows are excluded, and live measurement is switched off for
the rest of the study.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.live.eligibility import is_excluded_as, refused_switches
from tuner.live.running import Canonical, RunningJob, running_job
from tuner.model import (
    Exclusion,
    ExclusionKind,
    Failed,
    Finished,
    LaunchRecord,
    Setting,
    Stopped,
    StudySpec,
    wording,
)
from tuner.stats import estimates, noise

#: Of so many windows of a job at least one is a repeat.
EVERY = 6

#: No disagreement is less than this share; no drift less than so many standard errors either.
LEAST, DEVIATIONS = 0.05, 3.0

#: So many jobs of a study are ended because they drifted; then this is how its jobs are.
MOST_JOBS = 2

#: A window further off than this is an accident, and no measure of the noise.
_ACCIDENT = 0.25

#: How far the scale of windows is off, as the logarithm's standard deviation: it is learnt from a
#: few launches, and the machine is another one at the confirmation (docs/live.md has the cases).
SCALE_SD = 0.1

#: The normal distribution's quantile for 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Inconsistency:
    """Windows that cannot be trusted.

    Attributes:
        setting: The (canonical) setting that shows it.
        numbers: The records to exclude.
        exclusion: Why.
        proven: False: a single window differs, the setting is to be measured again.
    """

    setting: Setting
    numbers: tuple[int, ...]
    exclusion: Exclusion
    proven: bool = True


# --- drift -------------------------------------------------------------------------------


def due_repeat(
    spec: StudySpec,
    records: Sequence[LaunchRecord],
    canonical: Canonical,
    following: Setting | None,
) -> Setting | None:
    """The (canonical) setting to repeat now in the running job, to see whether that has drifted.

    Args:
        spec: The study.
        records: Its launches.
        canonical: Gives settings that come to the same one form.
        following: The setting that would come next; ``None``: none would.
    """
    job = running_job(spec, records, canonical)
    if job is None:
        return None
    suspected = drift(spec, records, canonical)
    if suspected is not None:
        return suspected.setting
    if following is None or not job.serves(canonical(following)):
        return None
    counted = estimates.counted(job.windows)
    seen: set[Setting] = set()
    since = 0
    for record in counted:
        setting = canonical(record.setting)
        since = 0 if setting in seen else since + 1
        seen.add(setting)
    best = estimates.best(estimates.measurements(counted, canonical))
    return best.setting if best is not None and since >= EVERY else None


def drift(
    spec: StudySpec, records: Sequence[LaunchRecord], canonical: Canonical
) -> Inconsistency | None:
    """Whether the last window shows that the running job has drifted; ``None``: it does not."""
    job = running_job(spec, records, canonical)
    drifted = {r.job for r in records if is_excluded_as(r, ExclusionKind.JOB_DRIFTED)}
    if job is None or len(drifted) >= MOST_JOBS:
        return None
    windows = [(r, x) for r in estimates.counted(job.windows) if (x := _log(r)) is not None]
    if not windows or windows[-1][0].number != records[-1].number:
        return None
    setting = canonical(windows[-1][0].setting)
    own = [(r.number, x) for r, x in windows if canonical(r.setting) == setting]
    sd = _spread_in_jobs(records, canonical, setting)
    for last in (2, 1):
        before = [x for _, x in own[:-last]]
        if not before:
            continue
        middle = statistics.median(before)
        limit = max(math.log1p(LEAST), DEVIATIONS * sd * math.sqrt(1 + 1 / len(before)))
        away = [x - middle for _, x in own[-last:]]
        if min(away) > limit or max(away) < -limit:
            agreed = own[-last - 1][0]
            return _drifted(job, setting, statistics.fmean(away), agreed, proven=last == 2)
    return None


def _drifted(
    job: RunningJob, setting: Setting, off: float, agreed: int, *, proven: bool
) -> Inconsistency:
    numbers = tuple(r.number for r in estimates.counted(job.windows) if r.number > agreed)
    changed = wording.changed(math.exp(off))
    text = f"the running job drifted: the same setting took {changed} than before"
    return Inconsistency(setting, numbers, Exclusion(ExclusionKind.JOB_DRIFTED, text), proven)


def _spread_in_jobs(
    records: Sequence[LaunchRecord], canonical: Canonical, suspected: Setting
) -> float:
    """The spread of a setting's windows in one job, without the suspected setting."""
    groups: dict[tuple[int, Setting], list[float]] = {}
    for record in estimates.counted(records):
        setting = canonical(record.setting)
        time = _log(record) if record.outcome.samples else None
        if record.job is not None and time is not None and setting != suspected:
            groups.setdefault((record.job, setting), []).append(time)
    usual = [
        [x for x in logs if abs(x - statistics.median(logs)) <= _ACCIDENT]
        for logs in groups.values()
    ]
    return noise.pooled((logs for logs in usual if logs), noise.RUNS)[0]


# --- live against cold -------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """A setting measured both ways: the logarithm of live over cold, and its standard error."""

    setting: Setting
    off: float
    se: float


def live_vs_cold(records: Sequence[LaunchRecord], canonical: Canonical) -> Inconsistency | None:
    """The setting whose windows disagree most with its launches; ``None``: all agree."""
    pairs, quantile = _pairs(records, canonical)
    worst: tuple[float, float, _Pair, float] | None = None
    for pair in pairs:
        others, others_se = _scale_bias([each for each in pairs if each is not pair])
        off = pair.off - others
        limit = max(quantile * math.hypot(pair.se, others_se), math.log1p(LEAST))
        share = round(abs(off) / limit, 6)  # of two, each is as far from the other
        if share > 1 and (worst is None or (share, abs(pair.off)) > worst[:2]):
            worst = share, abs(pair.off), pair, off
    if worst is None:
        return None
    _, _, pair, off = worst
    text = (
        f"live and cold disagree: {pair.setting} took {wording.changed(math.exp(off))} in a running"
        " job than in launches of its own"
    )
    windows = [r for r in estimates.counted(records) if r.job is not None]
    numbers = tuple(record.number for record in windows)
    return Inconsistency(pair.setting, numbers, Exclusion(ExclusionKind.LIVE_DISAGREES, text))


def switched_off_notes(records: Sequence[LaunchRecord]) -> list[str]:
    """Why live measurement is over for this study, if it is."""
    refused = refused_switches(records)
    if refused:
        settings = wording.one_line(" and ".join(str(record.setting) for record in refused))
        ending = refused[0].outcome.ending
        reason = wording.one_line(ending.reason) if isinstance(ending, Failed) else ""
        return [
            "live measurement was switched off for this study: running jobs could not be switched"
            f" to {settings} (the first: {reason})"
        ]
    if any(is_excluded_as(record, ExclusionKind.LIVE_DISAGREES) for record in records):
        return ["live measurement was switched off for this study: live and cold disagreed"]
    return []


def notes(records: Sequence[LaunchRecord], canonical: Canonical) -> list[str]:
    """What a reader of the result must know of live measurement; mostly nothing."""
    found = switched_off_notes(records)
    pairs, quantile = _pairs(records, canonical)
    if not pairs:
        return found
    off, se = _average(pairs)
    if abs(off) > max(quantile * se, math.log1p(LEAST)):
        took = f"windows of running jobs took {wording.changed(math.exp(off))} than launches of"
        which = (
            "the same settings, all alike: so they rank as launches do"
            if len(pairs) > 1
            else f"{pairs[0].setting}, the one setting that was measured both ways"
        )
        found.append(f"{took} {which}")
    return found


def _pairs(records: Sequence[LaunchRecord], canonical: Canonical) -> tuple[list[_Pair], float]:
    """The settings measured both ways, and Student's quantile for the spread's freedom."""
    groups: dict[Setting, tuple[list[LaunchRecord], list[LaunchRecord]]] = {}
    for record in estimates.counted(records):
        if any(sample.elapsed_s > 0 for sample in record.outcome.samples):
            sides = groups.setdefault(canonical(record.setting), ([], []))
            sides[record.job is None].append(record)
    both = {setting: sides for setting, sides in groups.items() if all(sides)}
    logs = {
        setting: tuple([x for r in side if (x := _log(r)) is not None] for side in sides)
        for setting, sides in both.items()
    }
    sd, freedom = noise.pooled((side for sides in logs.values() for side in sides), noise.RUNS)
    pairs = []
    for setting, (live, launches) in logs.items():
        jobs = {record.job for record in both[setting][0]}
        se = sd * math.sqrt(1 / len(jobs) + 1 / len(launches))
        pairs.append(_Pair(setting, statistics.median(live) - statistics.median(launches), se))
    # Abramowitz & Stegun 26.7.5; within 0.5 % from 4 on
    first, second = (_Z**3 + _Z) / 4, (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return pairs, _Z + first / freedom + second / freedom**2


def _average(pairs: Sequence[_Pair]) -> tuple[float, float]:
    """What they are off by on average, with its standard error; there is one at least."""
    weights = [1 / pair.se**2 for pair in pairs]
    return statistics.fmean([pair.off for pair in pairs], weights), 1 / math.sqrt(sum(weights))


def _scale_bias(others: Sequence[_Pair]) -> tuple[float, float]:
    """What any setting is off by for the scale alone, as others show it, with its standard error.

    Before they do it is 0 give or take `SCALE_SD`.
    """
    if not others:
        return 0.0, SCALE_SD
    off, se = _average(others)
    weight = 1 / (1 + (se / SCALE_SD) ** 2)
    return weight * off, math.sqrt(weight) * se


# --- both --------------------------------------------------------------------------------


def _log(record: LaunchRecord) -> float | None:
    """The logarithm of what it took, or was going to take."""
    ending = record.outcome.ending
    if isinstance(ending, Finished) and ending.elapsed_s > 0:
        return math.log(ending.elapsed_s)
    if isinstance(ending, Stopped) and ending.projection_s > 0:
        return math.log(ending.projection_s)
    return None
