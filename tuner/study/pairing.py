"""Pairs of launches side by side: whether they can be made, and what ratios they show. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.model import (
    FROM_OUTSIDE,
    Exclusion,
    ExclusionKind,
    Failed,
    Finished,
    LaunchRecord,
    Setting,
    Stopped,
    wording,
)
from tuner.model.outcome import PACE
from tuner.study.history import History

#: Both launches together may need this share of the host's memory.
MEMORY_SHARE = 0.8

#: A baseline whose log shows no pace has to run to its end, so it may be this much slower.
MOST_WITHOUT_PACE = 5.0


def why_in_turn(history: History, best: Setting, reference: Setting, ratio: float) -> str | None:
    """Return why two settings are launched in turn; ``None``: they can be launched side by side.

    Args:
        history: The study so far.
        best: One of the settings.
        reference: The other one.
        ratio: How many times slower the reference is, as the search saw it.

    Returns:
        A reason; an empty one if the user has asked for it.
    """
    spec = history.spec
    if spec.compare == "in-turn" or spec.confirm == "exact":
        return ""
    impossible = [text for r in history.records if (text := _shows_that_it_cannot(r))]
    if impossible:
        return impossible[0]
    if spec.compare == "side-by-side":
        return None
    return next(_doubts(history, best, reference, ratio), None)


def _doubts(history: History, best: Setting, reference: Setting, ratio: float) -> Iterator[str]:
    """Yield what speaks against two launches at once; the user may know better."""
    spec = history.spec
    if spec.prepare:
        yield "--prepare runs before each launch, when the other one would still be there"
    if spec.objective.clock in {"wall", "none"} and ratio > MOST_WITHOUT_PACE:
        times = f"the baseline is more than {MOST_WITHOUT_PACE:g} times slower"
        yield f"{times}, and shows no pace before its end"
    sides = [history.of(history.searched, setting) for setting in (best, reference)]
    need_bytes = sum(map(_memory_bytes, sides))
    if need_bytes > MEMORY_SHARE * spec.machine.memory_bytes:
        needed, there = map(wording.gibibytes, (need_bytes, spec.machine.memory_bytes))
        yield f"both together need {needed} of memory, and the host has {there}"
    if written := set.intersection(*map(_written, sides)):
        yield f"both write {wording.one_line(min(written))}"


def log_ratios(history: History, best: Setting, reference: Setting) -> list[float]:
    """Return the logarithm of reference over best for each pair of the comparison, in order.

    A pair counts if both of its launches do: each came to its end, or its pace is known.
    """
    costs: dict[int, tuple[Setting, float]] = {}
    ratios = []
    for record in history.confirming:
        pair, cost = record.outcome.side_by_side, _cost(record)
        if pair is None or cost is None:
            continue
        costs[record.number] = history.pooling.canonical(record.setting), cost
        if pair.other in costs:
            by_setting = dict((costs[record.number], costs[pair.other]))
            if by_setting.keys() == {best, reference}:
                ratios.append(math.log(by_setting[reference] / by_setting[best]))
    return ratios


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


def _shows_that_it_cannot(record: LaunchRecord) -> str:
    """Return why a launch of a pair had nothing to compare; empty: it had, or was in no pair."""
    exclusion = record.outcome.exclusion
    if exclusion is not None:
        return exclusion.text if exclusion.kind is ExclusionKind.SIDE_BY_SIDE else ""
    is_stopped = isinstance(record.outcome.ending, Stopped)
    if record.outcome.side_by_side is not None and is_stopped and _cost(record) is None:
        return f"launch {record.number} was stopped beside another one before it showed its pace"
    return ""


def _cost(record: LaunchRecord) -> float | None:
    """Return what is compared of a launch of a pair; ``None``: it shows too little."""
    ending = record.outcome.ending
    if isinstance(ending, Finished):
        return ending.elapsed_s if ending.elapsed_s > 0 else None
    return ending.projection_s if isinstance(ending, Stopped) and ending.rule == PACE else None


def _memory_bytes(records: Sequence[LaunchRecord]) -> int:
    return max((record.outcome.observation.memory_bytes for record in records), default=0)


def _written(records: Sequence[LaunchRecord]) -> set[str]:
    return {path for record in records for path in record.outcome.observation.written}
