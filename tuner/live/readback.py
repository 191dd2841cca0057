"""What the ranks of a running job read back after a switch, as a launch shows it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from tuner.knobs.effects import effects
from tuner.launch import failure
from tuner.live.server import RankState
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


def observed(from_outside: Observation, ranks: Sequence[RankState]) -> Observation:
    """Both views of each rank joined: that from ``/proc``, and what the rank read back itself."""
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


def refused(
    setting: Setting, ranks: Sequence[RankState], changed: Collection[str]
) -> tuple[Failed, str] | None:
    """The failure of a switch, and its knob; ``None`` if all ranks were switched to the setting.

    A resource that ran out is told by the exception, as that of a launch is.

    Args:
        setting: The one to switch to.
        ranks: What they read back.
        changed: The knobs that they had to change; an error of another (which can be changed but
            not read) would else fail every window.
    """
    failed = [
        (rank.rank, knob, error)
        for rank in ranks
        for knob, error in rank.errors.items()
        if knob in changed
    ]
    if not failed:
        return None
    number, knob, error = failed[0]
    what = f"{knob}={setting.as_dict()[knob]}" if knob in setting.as_dict() else knob
    others = len({rank for rank, _, _ in failed}) - 1
    place = f"rank {number}" + (f" and {wording.count(others, 'other')}" if others else "")
    found = failure.shortage(error)
    if found is not None and found[0] in SHORTAGES:
        kind, meaning = found
        return Failed(kind, f"{meaning} at the switch to {what} in {place}: {error}"), knob
    return Failed(FailureKind.SWITCH, f"{what} in {place}: {error}"), knob


def effects_of(
    setting: Setting, spec: StudySpec, observation: Observation, ranks: Sequence[RankState]
) -> tuple[Effect, ...]:
    """The verdict on each knob; if ``/proc`` does not show it, by what was read back."""
    return tuple(
        _by_read_back(effect, ranks)
        for effect in effects(setting, spec.knobs, observation, spec.machine)
    )


def _by_read_back(effect: Effect, ranks: Sequence[RankState]) -> Effect:
    if effect.verdict in {Verdict.CAPPED, Verdict.OVERRIDDEN} or effect.observed == effect.asked:
        return effect
    values = {rank.rank: rank.values.get(effect.knob) for rank in ranks}
    if not values or None in values.values():
        return effect
    for rank, value in values.items():
        if value is not None and not _is_same(value, effect.asked):
            reason = f"the program itself set it to {value} (read back in rank {rank})"
            return replace(effect, observed=value, verdict=Verdict.OVERRIDDEN, reason=reason)
    return replace(effect, observed=effect.asked, verdict=Verdict.HONOURED, reason="")


def _is_same(read: Value, asked: Value) -> bool:
    """Whether both are the same value; numbers may be read as text, and as another type's text."""
    with suppress(ValueError):  # it is no number
        return float(read) == float(asked)
    return read == asked
