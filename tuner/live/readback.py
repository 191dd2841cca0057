"""What the ranks of a running job were seen with in a window. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tuner.knobs.effects import effects
from tuner.launch import resource_errors
from tuner.live.messages import RankSeen
from tuner.model import (
    SHORTAGES,
    Effect,
    Failed,
    FailureKind,
    Observation,
    RankView,
    Setting,
    StudySpec,
    Value,
    Verdict,
    wording,
)


def observed(from_outside: Observation, ranks: Sequence[RankSeen]) -> Observation:
    """Both views of each rank joined: that of ``/proc``, and what it read back itself."""
    views = {view.rank: view for view in from_outside.ranks}
    for seen in ranks:
        view = views.get(seen.rank) or RankView(seen.rank, 0, 0, ())
        views[seen.rank] = replace(
            view,
            affinity=view.affinity or seen.affinity,
            blas_threads=seen.blas_threads,
            opencv_threads=seen.opencv_threads,
            opencv_loaded=view.opencv_loaded or seen.opencv_threads is not None,
            world_size=len(ranks),
            pools=seen.pools,
            allocator=seen.allocator,
            reported=True,
        )
    return Observation(tuple(view for _, view in sorted(views.items())))


def refused(setting: Setting, ranks: Sequence[RankSeen], changed: Collection[str]) -> Failed | None:
    """What to say where ranks could not be switched to a setting; ``None`` where all could.

    What ran out is told by the exception, as that of a launch is; all else is the switch's.

    Args:
        setting: What was asked for.
        ranks: What they read back.
        changed: The knobs that they were to change; one that can be changed but not read would
            fail in every window else, in those of a job that was started with its value too.
    """
    told = [
        (rank.rank, error)
        for rank in ranks
        for error in rank.errors
        if error.partition(": ")[0] in changed
    ]
    if not told:
        return None
    number, (knob, _, said) = told[0][0], told[0][1].partition(": ")
    said = said.rstrip(": ")  # an exception may have no text
    what = f"{knob}={setting.as_dict()[knob]}" if knob in setting.as_dict() else knob
    others = len({rank for rank, _ in told}) - 1
    where = f"rank {number}" + (f" and {wording.count(others, 'other')}" if others else "")
    found = resource_errors.in_exceptions([("", said)])
    if found is not None and found[0] in SHORTAGES:
        kind, meaning, _ = found
        return Failed(kind, f"{meaning} at the switch to {what} in {where}: {said}")
    return Failed(FailureKind.SWITCH, f"{what} in {where}: {said}")


@dataclass(frozen=True)
class Refusal:
    """What ranks could not be switched to: ``chunk=16`` of the knob ``chunk``, and why not."""

    knob: str
    what: str
    text: str


_REFUSAL = re.compile(r"((\S+?)(?:=.*?)?) in rank \d+", re.DOTALL)


def refusal(reason: str) -> Refusal | None:
    """The reason of a failure that :func:`refused` found, read back."""
    found = _REFUSAL.match(reason)
    return None if found is None else Refusal(found[2], found[1], reason)


def effects_of(
    setting: Setting, spec: StudySpec, observation: Observation, ranks: Sequence[RankSeen]
) -> tuple[Effect, ...]:
    """The verdict on each knob; what ``/proc`` does not show is told by what was read back."""
    found = effects(setting, spec.knobs, observation, spec.machine)
    return tuple(_by_read_back(effect, ranks) for effect in found)


def _by_read_back(effect: Effect, ranks: Sequence[RankSeen]) -> Effect:
    if effect.verdict in {Verdict.CAPPED, Verdict.OVERRIDDEN} or effect.observed == effect.asked:
        return effect
    read = {rank.rank: rank.values.get(effect.knob) for rank in ranks}
    if not read or None in read.values():
        return effect
    for rank, found in read.items():
        if found is not None and not _is_same(found, effect.asked):
            reason = f"the program itself set it to {found} (read back in rank {rank})"
            return replace(effect, observed=found, verdict=Verdict.OVERRIDDEN, reason=reason)
    return replace(effect, observed=effect.asked, verdict=Verdict.HONOURED, reason="")


def _is_same(read: Value, asked: Value) -> bool:
    """Whether it is the same value; numbers may be read as text, and as another type's text."""
    with suppress(ValueError):  # it is no number
        return float(read) == float(asked)
    return read == asked
