"""What the ranks of a running job were seen with in a window. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.effects import effects
from tuner.model import (
    Effect,
    Observation,
    RankView,
    Setting,
    StudySpec,
    Verdict,
)
from tuner.retune.messages import RankSeen


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
        if found != effect.asked:
            reason = f"the program itself set it to {found} (read back in rank {rank})"
            return replace(effect, observed=found, verdict=Verdict.OVERRIDDEN, reason=reason)
    return replace(effect, observed=effect.asked, verdict=Verdict.HONOURED, reason="")
