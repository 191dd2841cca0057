"""Do windows of running jobs say what launches say? Compared where a setting has both. Pure.

**Each setting.** The logarithm of live over cold, with an interval: Student's, with the spread
that windows and launches have within their groups. Windows of one job have its start in common,
so they count as one. What a full run takes beyond its iterations (:mod:`tuner.retune.scale`) is
known better by now, so the windows are scaled anew, each from its own pace.

**All alike.** Where every setting is off by the same factor, the windows rank as launches do:
that is a bias of the scale, which is said and taken out of the comparison, and no disagreement.
With one setting to compare nothing is known of it, and the setting stands for itself.

**Disagreement.** A setting is off by more than its interval and more than `LEAST`, beside what
the others are. The knobs that were switched in its windows, and in those of no setting that
agrees, are launched cold from then on (else all that were switched; else all that can be); every
window in which one of them was switched is set aside. The text that they are set aside with
names the knobs, so the records are all that a resumed study needs. Each time at least one knob
more is cold: it ends.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner import stats, wording
from tuner.model import LaunchRecord, Setting
from tuner.retune.scale import expected
from tuner.study.plan import Plan

#: Less than this share is no disagreement.
LEAST = 0.05

#: What runs of a setting differ by where little is known of it: as the logarithm's standard
#: deviation, and the number of repeats that this figure counts as.
_USUAL_SD, _USUAL_WORTH = 0.05, 4

#: The normal distribution's quantile for 95 %.
_Z = 1.96

_TEXT = "live and cold disagree"
_KNOBS = re.compile(rf"{_TEXT} \(([^)]*)\)")


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
        text: What is said of it, and what they are set aside with.
    """

    setting: Setting
    live_s: float
    cold_s: float
    low: float
    high: float
    knobs: frozenset[str]
    numbers: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class _Pair:
    """A setting measured both ways; logarithms."""

    setting: Setting
    windows: tuple[LaunchRecord, ...]
    live: float
    cold: float
    se: float

    @property
    def off(self) -> float:
        return self.live - self.cold


def frozen(records: Iterable[LaunchRecord]) -> frozenset[str]:
    """The knobs that are launched cold in this study, as the windows set aside tell."""
    found = (_KNOBS.match(record.outcome.disturbed) for record in records)
    return frozenset(name for each in found if each for name in each[1].split(", "))


def bias(plan: Plan) -> float | None:
    """By what factor all windows are off alike; ``None``: there are not two settings to tell."""
    pairs, _ = _pairs(plan)
    return math.exp(_mean(pairs)[0]) if len(pairs) > 1 else None


def disagreements(plan: Plan) -> tuple[Disagreement, ...]:
    """Where windows and launches of a setting disagree; empty where they agree."""
    left, freedom = _pairs(plan)
    blamed = []
    while left and (worst := _worst(plan, left, _student(freedom))) is not None:
        blamed.append(worst)
        left.remove(worst[0])
        if len(left) == 1:  # what the first of two differs from
            break
    good = _switched(plan, [record for pair in left for record in pair.windows])
    return tuple(_told(plan, *each, good) for each in blamed)


def _worst(plan: Plan, pairs: Sequence[_Pair], wide: float) -> tuple[_Pair, float, float] | None:
    """The setting that is furthest off beside the others: by how much, and half its interval.

    Of two that differ from each other it is the one that was switched.

    Args:
        plan: The study.
        pairs: What is compared.
        wide: The interval's half-width in standard errors.
    """
    found = []
    for pair in pairs:
        others, others_se = _mean([each for each in pairs if each is not pair])
        off, half = pair.off - others, wide * math.hypot(pair.se, others_se)
        limit = max(half, math.log1p(LEAST))
        if abs(off) > limit:
            blame = (bool(_switched(plan, pair.windows)), round(abs(off) / limit, 6), abs(pair.off))
            found.append((blame, (pair, off, half)))
    return max(found, key=lambda each: each[0])[1] if found else None


def _told(plan: Plan, pair: _Pair, off: float, half: float, good: frozenset[str]) -> Disagreement:
    switched = _switched(plan, pair.windows)
    knobs = (switched - good) or switched or _can(pair.windows)
    aside = [r for r in _windows(plan) if not switched or _switched(plan, [r]) & knobs]
    text = (
        f"{_TEXT} ({', '.join(sorted(knobs))}): {pair.setting} took"
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
        text=text,
    )


def _pairs(plan: Plan) -> tuple[list[_Pair], int]:
    """The settings measured both ways, and the degrees of freedom of their spread."""
    counted = [r for r in stats.counted(plan.records) if _is_measured(r)]
    settings = dict.fromkeys(plan.pooling.canonical(r.setting) for r in counted)
    groups = []
    for setting in settings:
        own = plan.of(counted, setting)
        live = [r for r in own if r.outcome.window is not None]
        cold = [r for r in own if r.outcome.window is None]
        if live and cold:
            logs = tuple([_log(plan, r) for r in side] for side in (live, cold))
            groups.append((setting, live, logs))
    sd, freedom = _spread([side for _, _, logs in groups for side in logs])
    pairs = []
    for setting, live, logs in groups:
        jobs = {record.outcome.window.job for record in live if record.outcome.window}
        se = sd * math.sqrt(1 / len(jobs) + 1 / len(logs[1]))
        middle, cold_middle = (statistics.median(side) for side in logs)
        pairs.append(_Pair(setting, tuple(live), middle, cold_middle, se))
    return pairs, freedom


def _mean(pairs: Sequence[_Pair]) -> tuple[float, float]:
    """What they are off by on average, with its standard error; 0 where there are none."""
    if not pairs:
        return 0.0, 0.0
    weights = [1 / pair.se**2 for pair in pairs]
    return statistics.fmean([pair.off for pair in pairs], weights), 1 / math.sqrt(sum(weights))


def _spread(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """The pooled standard deviation within groups, and its degrees of freedom."""
    squares, freedom = _USUAL_WORTH * _USUAL_SD**2, _USUAL_WORTH
    for logs in groups:
        mean = statistics.fmean(logs)
        squares += sum((x - mean) ** 2 for x in logs)
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom), freedom


def _student(freedom: int) -> float:
    """Student's quantile for 95 % (Abramowitz & Stegun 26.7.5; within 0.5 % from 4 on)."""
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2


def _windows(plan: Plan) -> list[LaunchRecord]:
    return [r for r in stats.counted(plan.records) if r.outcome.window is not None]


def _switched(plan: Plan, windows: Iterable[LaunchRecord]) -> frozenset[str]:
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


def _is_measured(record: LaunchRecord) -> bool:
    return any(sample.elapsed_s > 0 for sample in record.outcome.samples)


def _log(plan: Plan, record: LaunchRecord) -> float:
    """The logarithm of a measured figure, as all cold launches scale it."""
    (sample,), window = record.outcome.samples, record.outcome.window
    if window is None or window.pace_s <= 0:
        return math.log(sample.elapsed_s)
    known = expected(plan.records, sample.iterations, plan.spec.objective)
    return math.log(known.figure_s(window.pace_s))
