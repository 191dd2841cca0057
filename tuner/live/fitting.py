"""Which settings a running job can be switched to. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tuner.model import UNSET, Setting


def is_reachable(start: Setting, wanted: Setting, live: AbstractSet[str]) -> bool:
    """Whether a job can be switched to a setting: what cannot be changed is as it was started.

    Args:
        start: What the job was started with.
        wanted: The defaults (the empty one) only fit a job that was started with them; nor can a
            variable be taken away from processes that run.
        live: The knobs that the job can change.
    """
    if wanted.is_baseline:
        return start.is_baseline
    asked, own = wanted.as_dict(), start.as_dict()
    return all(
        asked.get(knob) == own.get(knob) or (knob in live and asked.get(knob) != UNSET)
        for knob in asked | own
    )
