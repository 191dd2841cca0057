"""Which launches of a study are windows of a running job, and when none is any more. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from tuner.launch.hang_detector import may_be_elsewhere
from tuner.live.windows import LEAST
from tuner.model import (
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
    wording,
)
from tuner.search.throughput import began_before
from tuner.stats import estimates, noise

#: Failures that no switch can be at fault for.
NOT_BY_THE_SWITCH = FROM_OUTSIDE | {FailureKind.LIMIT}

#: A job whose runs have fewer iterations is launched: a window would be as long as a run, and the
#: first iterations, which no window sees, are too large a share of so few.
LEAST_ITERATIONS = 4 * LEAST

#: No disagreement is less than this share, nor less than this many standard errors.
LEAST_OFF, DEVIATIONS = 0.05, 2.5

#: How far the scale of windows is off, as the logarithm's standard deviation: it is learnt from a
#: few launches, and the machine is another one at the confirmation (docs/live.md has the cases).
SCALE_SD = 0.1

_OVER = "live measurement was switched off for this study"


def why_cold(objective: ObjectiveSpec, layout: Layout, environ: Mapping[str, str]) -> str:
    """Say why each setting of a study needs a launch of its own; empty: nothing is against windows.

    A window shows the pace of iterations, so the figure must follow from that. And the ranks must
    be on hosts that the tool knows of, or they could not reach it.
    """
    if objective.clock == "wall":
        return "the objective wall is the time of a whole launch, with its start"
    if objective.clock == "none":
        what = f"{objective.kind}:{objective.key}" if objective.kind == "logreport" else ""
        return f"a part of a run tells nothing of the objective {what or objective.kind}"
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
    return iterations is not None and iterations >= LEAST_ITERATIONS


def why_too_short(records: Sequence[LaunchRecord]) -> str:
    """Say why the program's runs are too short for windows; empty: as far as is known not."""
    iterations = estimates.full_length(records)
    if not iterations or iterations >= LEAST_ITERATIONS:
        return ""
    return f"a run has {iterations} iterations, windows need {LEAST_ITERATIONS}"


def full_iterations(records: Sequence[LaunchRecord], setting: Setting) -> int | None:
    """Return how many iterations a full launch makes; ``None``: that is not known.

    It makes as many as the longest launch with the same batch size. An objective that counts no
    iterations says 0.
    """
    batch = estimates.batch(setting)
    same_batch = (record for record in records if estimates.batch(record.setting) == batch)
    return estimates.full_length(same_batch) or None


def why_switched_off(records: Sequence[LaunchRecord]) -> str:
    """Say why live measurement is over for this study; empty: it is not."""
    exclusions = (record.outcome.exclusion for record in records)
    kinds = {exclusion.kind for exclusion in exclusions if exclusion is not None}
    return f"{_OVER}: live and cold disagreed" if ExclusionKind.LIVE_DISAGREES in kinds else ""


def live_vs_cold(
    records: Sequence[LaunchRecord], canonical: Callable[[Setting], Setting]
) -> Exclusion | None:
    """Return why all windows are to be excluded; ``None``: they agree with launches.

    Every setting that has both is compared: the logarithm of live over cold. Windows of one job
    have its start in common, so they count as one. If all settings are off by the same factor,
    windows still rank as launches do: that is a bias of the scale, and no disagreement. A single
    setting is off only beyond what the scale may be off by (`SCALE_SD`).

    Args:
        records: The launches of a study.
        canonical: Gives settings that come to the same one form.
    """
    sides_by_setting: dict[Setting, tuple[list[LaunchRecord], list[LaunchRecord]]] = {}
    for record in estimates.counted(records):
        if any(sample.elapsed_s > 0 for sample in record.outcome.samples):
            sides = sides_by_setting.setdefault(canonical(record.setting), ([], []))
            sides[record.job is None].append(record)
    both = {setting: sides for setting, sides in sides_by_setting.items() if all(sides)}
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
        others = [other_off for other, other_off in offs.items() if other != setting]
        scale, scale_se = 0.0, SCALE_SD
        if others:
            scale = statistics.fmean(other_off for other_off, _ in others)
            scale_se = math.hypot(*(other_se for _, other_se in others)) / len(others)
        limit = max(DEVIATIONS * math.hypot(se, scale_se), math.log1p(LEAST_OFF))
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


def is_reachable(start: Setting, target: Setting, live: AbstractSet[str]) -> bool:
    """Return whether a running job can be switched to a setting.

    Args:
        start: What the job was started with; a knob that it cannot change stays as there.
        target: A running job cannot switch to what it leaves out, so the baseline (the empty
            setting) needs a launch; nor can a variable be removed from processes that run.
        live: The knobs that the job can change.
    """
    new, old = target.as_dict(), start.as_dict()
    return all(
        new.get(knob) == old.get(knob) or (knob in live and new.get(knob, UNSET) != UNSET)
        for knob in new | old
    )
