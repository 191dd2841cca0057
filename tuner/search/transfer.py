"""What an earlier study of the same program showed, in terms of another space.

The settings are moved to the nearest values of that space, each with the core demand that it had
where it ran: a knob's own effect is expected at the same value, that of overfull cores at the same
demand. Of the times only the ratios to that study's best are taken over.

The kernel (`tuner.search.kernel`) has them as observations of a second, correlated function, so
the launches themselves say how far to trust them. They are a prior, never launches of the study.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.model import Lesson, Purpose, Shown, Value
from tuner.search.history import Groups, SearchObservation, bounded, grouped, thinned
from tuner.search.space import Floats, Grid, Key, KnobAxis, Points

#: Of an earlier study so many of the fastest settings are looked at, and so many of the others.
_FASTEST, _OTHERS = 30, 30

#: A value that lies further outside of a range than this is left out, in octaves.
_OUTSIDE = 0.5

#: The spread, as a logarithm, that a knob causes which is not tuned any more.
_LOST_SD = 0.1


@dataclass(frozen=True)
class Earlier:
    """The settings of an earlier study that worked, and all of its settings as groups."""

    points: Points
    log_ratio: Floats  # to that study's best
    extra_var: Floats
    groups: Groups


def translated(lesson: Lesson | None, grid: Grid) -> Earlier | None:
    """Return the lesson in terms of the grid, ``None`` if nothing that worked has a place there."""
    if lesson is None:
        return None
    usual = grid.space.guesses[0] if grid.space.guesses else None
    launches: list[SearchObservation] = []
    kept: list[tuple[Shown, float]] = []
    keys: list[Key] = []
    failed = [shown for shown in lesson.shown if shown.log_ratio is None]
    worked = [shown for shown in lesson.shown if shown.log_ratio is not None]
    for shown in failed + thinned(worked, lambda shown: shown.log_ratio or 0, _FASTEST, _OTHERS):
        moved = _moved(shown, grid.space.knobs, usual)
        if moved is None:
            continue
        row, lost = moved
        key = grid.key(grid.canonical(np.array([row]))[0])
        if shown.log_ratio is None:
            launches.append(
                SearchObservation(key, "failed", Purpose.SEARCH, 0.0, is_bound=shown.is_bound)
            )
            continue
        elapsed_s = math.exp(shown.log_ratio)
        launches.append(SearchObservation(key, "finished", Purpose.SEARCH, 0.0, elapsed_s))
        kept.append((shown, _LOST_SD if lost else 0.0))
        keys.append(key)
    if not kept:
        return None
    log_ratio, more_var = bounded(np.array([shown.log_ratio for shown, _ in kept], float))
    var = np.array([shown.log_sd**2 + lost**2 for shown, lost in kept])
    return Earlier(
        points=grid.points(grid.rows(keys))._replace(
            demand=np.array([shown.demand for shown, _ in kept]) * grid.has_roles,
            earlier=np.ones(len(kept), bool),
        ),
        log_ratio=log_ratio,
        extra_var=var + more_var,
        groups=grouped(launches),
    )


def _moved(
    shown: Shown, knobs: Sequence[KnobAxis], usual: Key | None
) -> tuple[list[int], bool] | None:
    """Return the value indices, and whether another value of a knob was lost on the way.

    A knob that the earlier study did not tune stands at its usual value. ``None``: a value has no
    place in the space.
    """
    values = shown.setting.as_dict()
    lost = bool(values.keys() - {knob.name for knob in knobs})
    row = []
    for j, knob in enumerate(knobs):
        if knob.name not in values:
            default = knob.default if usual is None else usual[j]
            row.append(knob.values.index(default) if default in knob.values else 0)
            continue
        place = nearest(knob, values[knob.name])
        if place is None and len(knob.values) > 1:
            return None
        lost |= place is None
        row.append(place or 0)
    return row, lost


def nearest(knob: KnobAxis, value: Value) -> int | None:
    """Return the index of the nearest value, ``None`` if there is none or the range ends before."""
    if value in knob.values:
        return knob.values.index(value)
    if not (knob.ordered and isinstance(value, int)):
        return None
    octaves = replace(knob, values=(*knob.values, value)).octaves
    assert octaves is not None
    away = np.abs(octaves[:-1] - octaves[-1])
    place = int(np.argmin(away))
    return place if away[place] <= _OUTSIDE else None
