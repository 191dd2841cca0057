"""Do windows of running jobs say what launches say? Compared where a setting has both. Pure.

**Each setting.** The ratio of live over cold (:mod:`tuner.study.paired_differences`), with
Student's interval.

**All alike.** Where every setting is off by the same factor, the windows rank as launches do:
that is a bias of the scale, which is said and taken out of the comparison, and no disagreement.
How large it may be is known beforehand (`comparing.SCALE_SD`): with one setting to compare, nothing
else is known of it, and that setting is off only beyond it.

**Disagreement.** A setting is off by more than its interval and more than `LEAST`, beside what
the others are. The knobs that were switched in its windows, and in those of no setting that
agrees, are launched cold from then on (else all that were switched; else all that can be); every
window in which one of them was switched is excluded. The exclusion
names the knobs, so the records are all that a resumed study needs. Each time at least one knob
more is cold: it ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.model import Exclusion, ExclusionKind, LaunchRecord, Setting, wording
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.paired_differences import Pair, average, compared, scale_bias, student

#: Less than this share is no disagreement.
LEAST = 0.05


@dataclass(frozen=True)
class Disagreement:
    """A setting whose windows do not take what its launches take.

    Attributes:
        setting: In its canonical form.
        live_s: The median of its windows, a figure.
        cold_s: That of its launches.
        low: The lower end of live over cold, beside what all are off by.
        high: The upper end.
        knobs: What is cold from now on.
        numbers: The windows to set aside.
        exclusion: Why, with the knobs.
    """

    setting: Setting
    live_s: float
    cold_s: float
    low: float
    high: float
    knobs: frozenset[str]
    numbers: tuple[int, ...]
    exclusion: Exclusion


def blamed(records: Iterable[LaunchRecord]) -> frozenset[str]:
    """The knobs on which live and cold disagreed, as the windows set aside tell."""
    found = (record.outcome.exclusion for record in records)
    return frozenset(
        name
        for each in found
        if each is not None and each.kind is ExclusionKind.LIVE_DISAGREES
        for name in each.knobs
    )


def bias(plan: History) -> float | None:
    """By what factor all windows are off alike; ``None``: there are not two settings to tell."""
    pairs, _ = compared(plan)
    return math.exp(average(pairs)[0]) if len(pairs) > 1 else None


def notes(plan: History) -> list[str]:
    """What a reader of the result must know of the windows' scale; empty where that is right."""
    pairs, freedom = compared(plan)
    if not pairs:
        return []
    off, se = average(pairs)
    if abs(off) <= max(student(freedom) * se, math.log1p(LEAST)):
        return []
    took = f"windows of running jobs took {wording.changed(math.exp(off))} than launches of"
    if len(pairs) > 1:
        return [f"{took} the same settings, all alike: so they rank as launches do"]
    return [f"{took} {pairs[0].setting}, the one setting that was measured both ways"]


def disagreements(plan: History) -> tuple[Disagreement, ...]:
    """Where windows and launches of a setting disagree; empty where they agree."""
    left, freedom = compared(plan)
    blamed = []
    while left and (worst := _worst(plan, left, student(freedom))) is not None:
        blamed.append(worst)
        left.remove(worst[0])
        if len(left) == 1:  # what the first of two differs from
            break
    good = _switched(plan, [record for pair in left for record in pair.windows])
    return tuple(_told(plan, *each, good) for each in blamed)


def _worst(plan: History, pairs: Sequence[Pair], wide: float) -> tuple[Pair, float, float] | None:
    """The setting that is furthest off beside the others: by how much, and half its interval.

    Of two that differ from each other it is the one that was switched.

    Args:
        plan: The study.
        pairs: What is compared.
        wide: The interval's half-width in standard errors.
    """
    found = []
    for pair in pairs:
        others, others_se = scale_bias([each for each in pairs if each is not pair])
        off, half = pair.off - others, wide * math.hypot(pair.se, others_se)
        limit = max(half, math.log1p(LEAST))
        if abs(off) > limit:
            blame = (bool(_switched(plan, pair.windows)), round(abs(off) / limit, 6), abs(pair.off))
            found.append((blame, (pair, off, half)))
    return max(found, key=lambda each: each[0])[1] if found else None


def _told(plan: History, pair: Pair, off: float, half: float, good: frozenset[str]) -> Disagreement:
    switched = _switched(plan, pair.windows)
    can = _can(pair.windows)
    tuned = can & {knob.name for knob in plan.knobs} - plan.spec.fixed.as_dict().keys()
    knobs = (switched - good) or switched or tuned or can
    aside = [r for r in _windows(plan) if not switched or _switched(plan, [r]) & knobs]
    text = (
        f"live and cold disagree ({', '.join(sorted(knobs))}): {pair.setting} took"
        f" {wording.changed(math.exp(off))} in a running job than in launches of its own"
    )
    return Disagreement(
        setting=pair.setting,
        live_s=math.exp(pair.live),
        cold_s=math.exp(pair.cold),
        low=math.exp(off - half),
        high=math.exp(off + half),
        knobs=knobs,
        numbers=tuple(record.number for record in aside),
        exclusion=Exclusion(ExclusionKind.LIVE_DISAGREES, text, tuple(sorted(knobs))),
    )


def _windows(plan: History) -> list[LaunchRecord]:
    return [r for r in estimates.counted(plan.records) if r.outcome.window is not None]


def _switched(plan: History, windows: Iterable[LaunchRecord]) -> frozenset[str]:
    """The knobs that had another value in one of the windows than its job was started with."""
    names: set[str] = set()
    for record in windows:
        window = record.outcome.window
        assert window is not None
        start = next((r for r in plan.records if r.number == window.job), record)
        before, now = start.setting.as_dict(), record.setting.as_dict()
        names |= {name for name in window.live if before.get(name) != now.get(name)}
    return frozenset(names)


def _can(windows: Iterable[LaunchRecord]) -> frozenset[str]:
    """The knobs that their jobs could change."""
    return frozenset(name for r in windows if r.outcome.window for name in r.outcome.window.live)
