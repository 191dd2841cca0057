"""A setting as a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from tuner import knobs as table
from tuner.model import Effect, Knob, Setting, Value, Verdict

#: A table shows values of up to this many letters in full.
LONGEST_VALUE = 60


def shortened(value: Value) -> str:
    """Return a value for a table: a very long one is cut, so that the row can be read."""
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def assigned(
    setting: Setting, knobs: tuple[Knob, ...], effects: Sequence[Effect] = (), *, cut: bool = False
) -> str:
    """Return a setting in the order in which the study lists its knobs.

    A note follows a value that changes the numerics, and one that came to another by these effects
    of a launch. ``cut`` shortens long values, for a table.
    """
    if setting.is_baseline:
        return "defaults"
    order = {knob.name: place for place, knob in enumerate(knobs)}
    items = sorted(setting.items, key=lambda item: (order.get(item[0], len(order)), item[0]))
    actual = {
        effect.knob: f" (came to {effect.observed})"
        for effect in effects
        if effect.verdict in (Verdict.CAPPED, Verdict.OVERRIDDEN)
        and effect.observed not in (None, effect.asked)
    }
    rows = {knob.name: knob for knob in (*table.KNOBS, *knobs)}
    numerics = {n: " (changes numerics)" for n, v in items if n in rows and rows[n].departs(v)}
    return " ".join(
        f"{name}={shortened(value) if cut else value}{numerics.get(name, '')}{actual.get(name, '')}"
        for name, value in items
    )
