"""Decides which launches of a study are windows of a running job, and when none is. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tuner.launch.hang_detector import may_be_elsewhere
from tuner.model import (
    CLOCK,
    FROM_OUTSIDE,
    UNSET,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Layout,
    ObjectiveSpec,
    Purpose,
    Setting,
    Stopped,
    wording,
)
from tuner.search.throughput import began_before
from tuner.stats import evidence, noise

#: Failures that no switch can be at fault for.
NOT_BY_THE_SWITCH = FROM_OUTSIDE | {FailureKind.LIMIT}

#: A window gives no figure before so many iterations were measured in it.
LEAST_ITERATIONS = 5

#: With fewer iterations in a full run each setting is launched: a window would be as long as a run,
#: and the first iterations, which no window sees, are too large a share of so few.
LEAST_RUN_ITERATIONS = 4 * LEAST_ITERATIONS

#: Windows that are off by so many standard errors disagree with launches …
DEVIATIONS = 2.5
#: … if their scale, which is learnt from a few launches, is off by this much (the logarithm's
#: standard deviation).
SCALE_SD = 0.1
#: A first launch may be slow by itself, but is no quicker than windows by this factor. It is twice
#: as quick or more if a step has several batches and the log counts batches; a neighbour made it
#: 1.7 times as quick.
MISCOUNTED_TIMES = 1.8


def why_cold(objective: ObjectiveSpec, layout: Layout, environ: Mapping[str, str]) -> str:
    """Return why each setting of a study needs a launch of its own; empty: windows are possible.

    A window shows the pace of iterations, so the figure must follow from that. And the ranks must
    be on hosts that the tool knows of, or they could not reach it.
    """
    if objective.clock == "wall":
        return "the objective wall is the time of a whole launch, with its start"
    if objective.clock == "none":
        key = "" if objective.key == CLOCK else f":{objective.key}"
        return f"a part of a run tells nothing of the objective {objective.kind}{key}"
    if layout.is_local and may_be_elsewhere(environ):
        return "the ranks may run on other hosts, which --hosts does not name"
    return ""


def may_be_window(records: Sequence[LaunchRecord], purpose: Purpose, setting: Setting) -> bool:
    """Return whether a window can measure the setting, as long as jobs accept switches."""
    if not purpose.stage.may_be_window or why_switched_off(records):
        return False
    launches = (record.outcome for record in records if record.job is None)
    if any(began_before(outcome.progress, outcome.wall_s) for outcome in launches):
        return False  # of a run that goes on from an earlier one no log shows a full run
    for record in records:
        ending = record.outcome.ending
        has_failed = isinstance(ending, Failed) and ending.kind not in NOT_BY_THE_SWITCH
        if record.setting == setting and record.job is not None and has_failed:
            return False  # its next launch shows if the setting failed, or the switch
    iterations = full_iterations(records, setting)
    return iterations is not None and iterations >= LEAST_RUN_ITERATIONS


def why_too_short(records: Sequence[LaunchRecord]) -> str:
    """Return why the program's runs are too short for windows; empty: no launch shows that yet."""
    iterations = evidence.full_length(records)
    if not iterations or iterations >= LEAST_RUN_ITERATIONS:
        return ""
    return f"a run has {iterations} iterations, windows need {LEAST_RUN_ITERATIONS}"


def full_iterations(records: Sequence[LaunchRecord], setting: Setting) -> int | None:
    """Return how many iterations a full launch makes; ``None``: that is not known.

    It makes as many as the longest launch with the same batch size and ranks.
    """
    size = evidence.step_size(setting)
    alike = (record for record in records if evidence.step_size(record.setting) == size)
    return evidence.full_length(alike) or None  # 0 is of an objective that counts none


def why_switched_off(records: Sequence[LaunchRecord]) -> str:
    """Return why live measurement is over for this study; empty: it is not."""
    exclusions = (record.outcome.exclusion for record in records)
    kinds = {exclusion.kind for exclusion in exclusions if exclusion is not None}
    if ExclusionKind.LIVE_DISAGREES not in kinds:
        return ""
    return "live measurement was switched off for this study: live and cold disagreed"


def live_vs_cold(records: Sequence[LaunchRecord]) -> Exclusion | None:
    """Return why all windows are to be excluded; ``None``: they agree with launches.

    Each setting with windows and launches is compared, by the logarithm of live over cold. Settings
    that come to the same are one. Windows of one job have its start in common, so they count as
    one. If only a warm-up was launched with a setting, it must not be far quicker.

    The machine may be slower or quicker in the comparison than it was in the search, and a launch
    beside another one is slower than alone. So launches of the comparison contradict nothing if
    another setting has changed as much from its earlier launches to those of the comparison.
    """
    windows, launches, compared, warm_ups = (dict[Setting, list[LaunchRecord]]() for _ in range(4))
    for record in records:
        by_setting = launches if record.job is None else windows
        if record.purpose is Purpose.WARM_UP:
            by_setting = warm_ups
        elif record.purpose is Purpose.CONFIRM:
            by_setting = compared
        if not evidence.is_excluded(record):
            by_setting.setdefault(record.canonical, []).append(record)
    groups = [_log_times(group) for group in (*windows.values(), *launches.values())]
    log_sd, _ = noise.pooled(filter(None, groups), noise.RUNS)
    for setting, in_windows in windows.items():
        live, cold = _log_times(in_windows), _log_times(launches.get(setting, ()))
        jobs, changes = {record.job for record in in_windows}, [0.0]
        if not cold:
            cold = _log_times(compared.get(setting, ()))
            for other in compared.keys() & launches.keys() - {setting}:
                before, after = _log_costs(launches[other]), _log_costs(compared[other])
                if before and after:
                    changes.append(statistics.median(after) - statistics.median(before))
        has_only_warm_ups = not cold
        cold = cold or _log_times(warm_ups.get(setting, ()))
        if not live or not cold:
            continue
        difference = statistics.median(live) - statistics.median(cold)
        log_ratio = min((difference + change for change in changes), key=abs)
        se = log_sd * math.sqrt(1 / len(jobs) + 1 / len(cold))
        limit = DEVIATIONS * math.hypot(se, SCALE_SD)
        if has_only_warm_ups:  # windows may be quicker than these, and must not be much slower
            log_ratio, limit = max(0.0, log_ratio), max(limit, math.log(MISCOUNTED_TIMES))
        if abs(log_ratio) > limit:
            change_text = wording.changed(math.exp(log_ratio))
            hint = " (session.step() says what an iteration is)" if has_only_warm_ups else ""
            return Exclusion(
                ExclusionKind.LIVE_DISAGREES,
                f"live and cold disagree: {setting} took {change_text} in a running job than in"
                f" launches of its own{hint}",
            )
    return None


def _log_times(records: Sequence[LaunchRecord]) -> list[float]:
    """Return the logarithms of the times of those that came to their end."""
    samples = (sample for record in records for sample in record.outcome.samples)
    return [math.log(sample.elapsed_s) for sample in samples if sample.elapsed_s > 0]


def _log_costs(records: Sequence[LaunchRecord]) -> list[float]:
    """Return the same, and the logarithms of the projections of those that were stopped."""
    stops = (record.outcome.ending for record in records)
    projections = [s.projection_s for s in stops if isinstance(s, Stopped) and s.is_forecast]
    return _log_times(records) + [math.log(projection_s) for projection_s in projections]


def is_reachable(start: Setting, target: Setting, live: AbstractSet[str]) -> bool:
    """Return whether a job that was started with `start` can be switched to the setting `target`.

    A knob that is not `live` stays as it was started. A running job cannot bring back the default
    of a knob that `target` leaves out, so the baseline (the empty setting) needs a launch; nor can
    a variable be removed from processes that run.
    """
    new, old = target.as_dict(), start.as_dict()
    return all(
        new.get(knob) == old.get(knob) or (knob in live and new.get(knob, UNSET) != UNSET)
        for knob in new | old
    )
