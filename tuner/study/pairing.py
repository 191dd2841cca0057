"""Pairs of launches, side by side or in turn: which way they are made, and what they show. Pure."""

from __future__ import annotations

import math
import statistics
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


@dataclass(frozen=True)
class Ratios:
    """What the pairs of a comparison show so far.

    Attributes:
        logs: The logarithm of each pair's ratio, reference over best, in their order.
        at_least: The reference of some of them was ended before it showed its pace.
        rule: That for how they were made.
    """

    logs: tuple[float, ...]
    at_least: bool
    rule: pairs.Rule

    def judge(self, precision: float, *, is_last: bool = False) -> Finding | None:
        """Return what they prove by the usual rule; see :func:`tuner.stats.pairs.judge`."""
        return pairs.judge(self.logs, precision, self.rule, at_least=self.at_least, is_last=is_last)

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
    return next(doubts(spec, sides), None)


def impossible(records: Sequence[LaunchRecord]) -> str:
    """Return what launches side by side have shown to be impossible; empty: nothing."""
    return next(filter(None, map(_shows_that_it_cannot, records)), "")


def _shows_that_it_cannot(record: LaunchRecord) -> str:
    """Return why a launch of a pair had nothing to compare; empty: it had, or was in no pair."""
    exclusion = record.outcome.exclusion
    if exclusion is not None:
        return exclusion.text if exclusion.kind is ExclusionKind.SIDE_BY_SIDE else ""
    if record.outcome.side_by_side is not None and cost(record) is None:
        return f"launch {record.number} was stopped beside another one before it showed anything"
    return ""


def doubts(spec: StudySpec, sides: Sequence[Sequence[LaunchRecord]]) -> Iterator[str]:
    """Yield what speaks against two launches at once; the user may know better.

    Args:
        spec: What is launched.
        sides: Earlier launches of each of the two.
    """
    if spec.prepare:
        yield "--prepare runs before each launch, when the other one would still be there"
    need_bytes = sum(map(_memory_bytes, sides))
    if need_bytes > MEMORY_SHARE * spec.machine.memory_bytes:
        needed, there = map(wording.gibibytes, (need_bytes, spec.machine.memory_bytes))
        yield f"both together need {needed} of memory, and the host has {there}"
    if written := set.intersection(*map(_written, sides)):
        yield f"both write {wording.one_line(min(written))}"


def judged(pair: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Return both launches of a pair, excluded if one has failed: by itself it may work."""
    for record in pair:
        ending = record.outcome.ending
        if isinstance(ending, Failed) and ending.kind not in FROM_OUTSIDE:
            reason = wording.one_line(ending.reason)
            text = f"launch {record.number} failed beside another one: {reason}"
            why = Exclusion(ExclusionKind.SIDE_BY_SIDE, text)
            return [replace(r, outcome=replace(r.outcome, exclusion=why)) for r in pair]
    return list(pair)


def ratios(history: History, best: Setting, reference: Setting, *, in_turn: bool) -> Ratios:
    """Return what the pairs of the comparison show that were made in one of the two ways."""
    launch_pairs = _in_turn(history, best, reference) if in_turn else side_by_side(history)
    logs, at_least = [], False
    for pair in launch_pairs:
        sides = {history.pooling.canonical(record.setting): record for record in pair}
        costs = {setting: cost(record) for setting, record in sides.items()}
        best_cost, reference_cost = costs.get(best), costs.get(reference)
        if best_cost is not None and reference_cost is not None:
            logs.append(math.log(reference_cost / best_cost))
            at_least |= is_bound(sides[reference])
    rule = pairs.IN_TURN if in_turn else rule_side_by_side(launch_pairs)
    return Ratios(tuple(logs), at_least, rule)


def rule_side_by_side(launch_pairs: Sequence[Sequence[LaunchRecord]]) -> pairs.Rule:
    """Return the rule for pairs that were made side by side."""
    sides = [record.outcome.side_by_side for pair in launch_pairs for record in pair]
    numbers = [len(side.slices) for side in sides if side is not None and side.slices]
    is_few = bool(numbers) and statistics.median(numbers) < FEWEST_SLICES
    return pairs.FEW_SLICES if is_few else pairs.SIDE_BY_SIDE


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


def is_bound(record: LaunchRecord) -> bool:
    """Return whether only the least that a launch takes is known."""
    ending = record.outcome.ending
    return isinstance(ending, Stopped) and ending.rule != PACE


def _memory_bytes(records: Sequence[LaunchRecord]) -> int:
    return max((record.outcome.observation.memory_bytes for record in records), default=0)


def _written(records: Sequence[LaunchRecord]) -> set[str]:
    return {path for record in records for path in record.outcome.observation.written}
