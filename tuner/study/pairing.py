"""Pairs of launches, side by side or in turn: which way they are made, and what they show. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tuner.launch.clocks import OtherSide
from tuner.model import (
    FROM_OUTSIDE,
    Exclusion,
    ExclusionKind,
    Failed,
    Finding,
    Finished,
    LaunchRecord,
    Setting,
    Stopped,
    StudySpec,
    wording,
)
from tuner.model.outcome import PACE
from tuner.search.throughput import at_usual_pace
from tuner.stats import pairs
from tuner.study.history import History

#: With fewer slices of each launch their times differ as if they were made in turn.
FEWEST_SLICES = 6

#: Both launches together may need this share of the host's memory.
MEMORY_SHARE = 0.8

#: What a launch waits for goes on while it is paused, if nothing of it ran in more than this share
#: of so many looks at least.
IDLE_SHARE, FEWEST_LOOKS = 0.3, 6

#: The ratio of a figure to the running time may change beside another launch, but on one side by
#: this factor more than on the other at most. A median between pauses makes it 2.
MOST_OFF_SCALE = 1.4


@dataclass(frozen=True)
class Ratios:
    """What the pairs of a comparison show so far.

    Attributes:
        logs: The logarithm of each pair's ratio, reference over best, in their order.
        off: How much all of them may be off in one direction; see :func:`end_error`.
        at_least: The reference of some of them was ended before it showed its pace.
        rule: That for how they were made.
    """

    logs: tuple[float, ...]
    off: float
    at_least: bool
    rule: pairs.Rule

    def judge(self, precision: float, *, is_last: bool = False) -> Finding | None:
        """Return what they prove by the usual rule; see :func:`tuner.stats.pairs.judge`."""
        return pairs.judge(
            self.logs,
            precision,
            self.rule,
            off=self.off,
            at_least=self.at_least,
            is_last=is_last,
        )

    def first(self, count: int) -> Ratios:
        """Return what so many of them show."""
        return replace(self, logs=self.logs[:count])


def why_in_turn(history: History, best: Setting, reference: Setting) -> str | None:
    """Return why two settings are launched in turn; ``None``: they can be launched side by side.

    The reason is empty if the user has asked for it.
    """
    spec = history.spec
    if spec.compare == "in-turn" or spec.confirm == "exact":
        return ""
    if why := impossible(history.records):
        return why
    if spec.compare == "side-by-side":
        return None
    sides = [history.of(history.searched, setting) for setting in (best, reference)]
    return next(doubts(spec, sides, history.searched), None)


def impossible(records: Sequence[LaunchRecord]) -> str:
    """Return what launches side by side have shown to be impossible; empty: nothing."""
    return next(filter(None, map(_shows_that_it_cannot, records)), "")


def _shows_that_it_cannot(record: LaunchRecord) -> str:
    """Return why a launch of a pair had nothing to compare; empty: it had, or was in no pair.

    One that was ended from outside, or by the user, says nothing.
    """
    exclusion, is_of_pair = record.outcome.exclusion, record.outcome.side_by_side is not None
    if exclusion is not None:
        return exclusion.text if exclusion.kind is ExclusionKind.SIDE_BY_SIDE else ""
    if is_of_pair and isinstance(record.outcome.ending, Stopped) and cost(record) is None:
        return f"launch {record.number} was stopped beside another one before it showed anything"
    return ""


def doubts(
    spec: StudySpec,
    sides: Sequence[Sequence[LaunchRecord]],
    others: Sequence[LaunchRecord] = (),
) -> Iterator[str]:
    """Yield what speaks against two launches at once; the user may know better.

    Args:
        spec: What is launched.
        sides: Earlier launches of each of the two.
        others: Earlier launches of any setting.
    """
    if spec.prepare:
        yield "--prepare runs before each launch, when the other one would still be there"
    need_bytes = sum(map(_memory_bytes, sides))
    if need_bytes > MEMORY_SHARE * spec.machine.memory_bytes:
        needed, there = map(wording.gibibytes, (need_bytes, spec.machine.memory_bytes))
        yield f"both together need {needed} of memory, and the host has {there}"
    # A launch that was stopped early may have had no time to write what others do.
    writers = Counter(path for record in others for path in record.outcome.observation.written)
    shared = {path for path, launches in writers.items() if launches > 1}
    shared |= set.intersection(*map(_written, sides))
    if shared:
        yield f"both write {wording.one_line(min(shared))}"


def judged(pair: Sequence[LaunchRecord], histories: Sequence[History]) -> list[LaunchRecord]:
    """Return both launches of a pair, excluded if they cannot be compared side by side.

    Args:
        pair: The two launches.
        histories: That of each one's study, without them.
    """
    why = next(filter(None, map(_failure, pair)), "")
    if not why and any(history.spec.compare != "side-by-side" for history in histories):
        why = next(filter(None, map(_idleness, pair)), "") or _off_scale(pair, histories)
    if not why:
        return list(pair)
    exclusion = Exclusion(ExclusionKind.SIDE_BY_SIDE, why)
    return [replace(r, outcome=replace(r.outcome, exclusion=exclusion)) for r in pair]


def _failure(record: LaunchRecord) -> str:
    """Return how a launch failed by itself; empty: it did not."""
    ending = record.outcome.ending
    if not isinstance(ending, Failed) or ending.kind in FROM_OUTSIDE:
        return ""
    return f"launch {record.number} failed beside another one: {wording.one_line(ending.reason)}"


def _idleness(record: LaunchRecord) -> str:
    """Return that a launch waited for much of its time; empty: it did not."""
    side = record.outcome.side_by_side
    looks = [is_at_work for is_at_work in side.at_work if is_at_work is not None] if side else []
    idle = looks.count(False)
    if len(looks) < FEWEST_LOOKS or idle <= IDLE_SHARE * len(looks):
        return ""
    return (
        f"nothing of launch {record.number} ran in {idle} of {len(looks)} looks, and what it"
        " waits for goes on while it is paused"
    )


def _off_scale(pair: Sequence[LaunchRecord], histories: Sequence[History]) -> str:
    """Return that the figures of a pair do not follow its running times; empty: they do.

    The figure may be a median or a minimum of steps, of which a short one has no pause in it and a
    long one has. Then the two launches of the pair differ in their figure for each second, and they
    differ otherwise than launches alone do. The latter proves nothing by itself: a neighbour who
    slows down the steps of a launch alone, but not its start, has the same effect.
    """
    scales, changes = [], []
    for record, history in zip(pair, histories, strict=True):
        if history.spec.objective.clock != "none":
            return ""
        alone = [
            scale
            for earlier in history.of(history.searched, record.setting)
            if earlier.outcome.side_by_side is None and (scale := _scale(earlier)) is not None
        ]
        scale = _scale(record)
        if not alone or scale is None:
            return ""
        scales.append(scale)
        changes.append(scale / statistics.median(alone))
    if min(max(values) / min(values) for values in (scales, changes)) <= MOST_OFF_SCALE:
        return ""
    numbers = " and ".join(str(record.number) for record in pair)
    return (
        f"the figures of launches {numbers} do not follow their running times as they did alone;"
        " they may be medians or minima, which pauses distort"
    )


def _scale(record: LaunchRecord) -> float | None:
    """Return the cost of a launch for each second that it ran; ``None``: it has none."""
    ending, wall_s = record.outcome.ending, record.outcome.wall_s
    if not isinstance(ending, Finished) or ending.elapsed_s <= 0 or wall_s <= 0:
        return None
    return ending.elapsed_s / wall_s


def ratios(history: History, best: Setting, reference: Setting, *, in_turn: bool) -> Ratios:
    """Return what the pairs of the comparison show that were made in one of the two ways."""
    launch_pairs = _in_turn(history, best, reference) if in_turn else side_by_side(history)
    logs, counted, at_least = [], [], False
    for pair in launch_pairs:
        sides = {history.pooling.canonical(record.setting): record for record in pair}
        costs = {setting: cost(record) for setting, record in sides.items()}
        best_cost, reference_cost = costs.get(best), costs.get(reference)
        if best_cost is not None and reference_cost is not None:
            logs.append(math.log(reference_cost / best_cost))
            at_least |= is_bound(sides[reference])
            counted.append(pair)
    rule = pairs.IN_TURN if in_turn else rule_side_by_side(launch_pairs)
    return Ratios(tuple(logs), end_error(counted), at_least, rule)


def rule_side_by_side(launch_pairs: Sequence[Sequence[LaunchRecord]]) -> pairs.Rule:
    """Return the rule for pairs that were made side by side."""
    numbers = [number for pair in launch_pairs if (number := min(map(_slices, pair)))]
    is_few = bool(numbers) and statistics.median(numbers) < FEWEST_SLICES
    return pairs.FEW_SLICES if is_few else pairs.SIDE_BY_SIDE


def _slices(record: LaunchRecord) -> int:
    side = record.outcome.side_by_side
    return 0 if side is None else len(side.slices)


def next_in_turn(history: History, best: Setting, reference: Setting) -> tuple[Setting]:
    """Return what comes next of launches in turn: A B B A."""
    launched = {setting: _launched(history, setting) for setting in (best, reference)}
    count = min(map(len, launched.values()))
    order = (reference, best) if count % 2 == 0 else (best, reference)
    return (next(setting for setting in order if len(launched[setting]) == count),)


def typical(history: History, setting: Setting) -> OtherSide | None:
    """Return what a launch of a setting takes to its end; ``None``: the search saw no such one.

    If none came to its end, it is where the launches were going.
    """
    whole, projected = [], []
    for record in history.of(history.searched, setting):
        ending, wall_s = record.outcome.ending, record.outcome.wall_s
        if isinstance(ending, Finished) and ending.elapsed_s > 0:
            paced = at_usual_pace(record.outcome.progress)
            whole.append(OtherSide(wall_s, ending.elapsed_s, paced))
        elif isinstance(ending, Stopped) and ending.bound_s > 0:
            share = ending.projection_s / ending.bound_s
            projected.append(OtherSide(wall_s * share, ending.projection_s))
    launches = whole or projected
    if not launches:
        return None
    paces = [launch.at_usual_pace for launch in launches if launch.at_usual_pace is not None]
    return OtherSide(
        statistics.median(launch.wall_s for launch in launches),
        statistics.median(launch.cost for launch in launches),
        statistics.median(paces) if paces else None,
    )


def side_by_side(history: History) -> list[tuple[LaunchRecord, LaunchRecord]]:
    """Return the pairs of the comparison of which both launches count."""
    launches = [r for r in history.confirming if r.outcome.side_by_side is not None]
    return [
        (first, second)
        for first, second in pairwise(launches)
        if second.outcome.side_by_side and second.outcome.side_by_side.other == first.number
    ]


def _in_turn(
    history: History, best: Setting, reference: Setting
) -> list[tuple[LaunchRecord, LaunchRecord]]:
    """Return the launches in turn by pairs, as far as there are as many of both settings."""
    sides = (_launched(history, setting) for setting in (best, reference))
    return list(zip(*sides, strict=False))


def _launched(history: History, setting: Setting) -> list[LaunchRecord]:
    """Return the launches in turn of a setting that show what it takes."""
    launches = history.of(history.confirming, setting)
    return [r for r in launches if r.outcome.side_by_side is None and cost(r) is not None]


def cost(record: LaunchRecord) -> float | None:
    """Return what is compared of a launch, a bound if no more is known; ``None``: nothing is."""
    ending, cost = record.outcome.ending, 0.0
    if isinstance(ending, Finished):
        cost = ending.elapsed_s
    elif isinstance(ending, Stopped):
        cost = ending.bound_s if is_bound(record) else ending.projection_s
    return cost if cost > 0 else None


def end_error(launch_pairs: Sequence[Sequence[LaunchRecord]]) -> float:
    """Return by how much the logarithms of pairs may be off, as nobody saw the end of a launch.

    See :class:`~tuner.search.stopper.PaceKnown`.
    """
    errors = [sum(map(_end_error, pair)) for pair in launch_pairs]
    return statistics.fmean(errors) if errors else 0.0


def _end_error(record: LaunchRecord) -> float:
    ending = record.outcome.ending
    if not isinstance(ending, Stopped) or is_bound(record) or ending.high_s is None:
        return 0.0
    return math.log(ending.high_s / ending.low_s) / 2


def is_bound(record: LaunchRecord) -> bool:
    """Return whether only the least that a launch takes is known."""
    ending = record.outcome.ending
    return isinstance(ending, Stopped) and ending.rule != PACE


def _memory_bytes(records: Sequence[LaunchRecord]) -> int:
    return max((record.outcome.observation.memory_bytes for record in records), default=0)


def _written(records: Sequence[LaunchRecord]) -> set[str]:
    return {path for record in records for path in record.outcome.observation.written}
