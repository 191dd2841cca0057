"""Turns costs into the figures that a study's user knows, and these into text. Pure.

Studies store and compare costs (:class:`tuner.model.ObjectiveSpec`); users are shown figures, in
their own unit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tuner.model import (
    CLOCK,
    TIME_UNITS_S,
    Failed,
    Finished,
    Measurement,
    ObjectiveSpec,
    Outcome,
    Stopped,
    wording,
)


def shown(objective: ObjectiveSpec, cost: float) -> str:
    """Write a figure with its unit: ``8.31 s``, ``12.3 ns/day``, ``4.57 ms/it``, ``123``."""
    if objective.clock == "steady":
        unit = next((u for u in ("h", "min", "s", "ms") if cost >= TIME_UNITS_S[u]), "us")
        return f"{number(cost / TIME_UNITS_S[unit])} {unit}/it"
    if objective.is_time and objective.unit in {"", "s"}:
        return wording.seconds(cost)
    return f"{number(objective.figure(cost))} {objective.unit}".rstrip()


def number(value: float) -> str:
    """Write a figure with three digits: ``0.0123``, ``1.23``, ``12345``, ``1.23e+09``."""
    power = math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{max(0, 2 - power)}f}" if -4 <= power < 7 else f"{value:.3g}"


def spread(objective: ObjectiveSpec, costs: Sequence[float]) -> str:
    """Write the median of some runs and their range: ``3.60 s (3 runs, 3.58 s to 3.61 s)``."""
    ends = sorted((min(costs), max(costs)), reverse=objective.maximize)
    low, high = (shown(objective, cost) for cost in ends)
    runs = "one run" if len(costs) == 1 else f"{len(costs)} runs, {low} to {high}"
    return f"{shown(objective, statistics.median(costs))} ({runs})"


def unit(objective: ObjectiveSpec) -> str:
    """Return the unit of the figures: ``s``, ``s/iteration``, ``ns/day``; empty if unknown."""
    if objective.clock == "steady":
        return "s/iteration"
    return objective.unit or ("s" if objective.is_time else "")


def figure(objective: ObjectiveSpec, cost: float | None) -> float | None:
    """Return the figure in :func:`unit`; ``None`` if there is none."""
    return None if cost is None else objective.figure(cost)


def title(objective: ObjectiveSpec) -> str:
    """Return the heading above figures with a unit each: ``time``, or the key of a log."""
    if objective.is_time:
        return "time"
    return "figure" if objective.key == CLOCK else objective.key


def axis(objective: ObjectiveSpec) -> str:
    """Return the heading of bare figures: ``seconds``, ``ms``, ``ns/day``, or the key of a log."""
    words = {"s": "seconds", "s/iteration": "seconds an iteration", "": title(objective)}
    return words.get(unit(objective), unit(objective))


class Words(NamedTuple):
    """The words that compare two settings, as in ``2.3 times faster``: half the joules are not."""

    better: str = "faster"
    worse: str = "slower"
    good: str = "fast"


def words(objective: ObjectiveSpec) -> Words:
    """Return the words for a time or a rate with a unit, or those for any other figure."""
    is_speed = objective.is_time or (objective.maximize and objective.unit)
    return Words() if is_speed else Words("better", "worse", "good")


def stopped(objective: ObjectiveSpec, ending: Stopped) -> str:
    """Say when a launch was stopped, and its forecast: ``stopped after 4.10 s (projected …)``."""
    if ending.bound_s <= 0:
        return "stopped before its log told anything"
    word = "with at least" if objective.clock == "steady" else "after"
    text = f"stopped {word} {shown(objective, ending.bound_s)}"
    forecast = f" (projected {shown(objective, ending.projection_s)})"
    return text + forecast if ending.is_forecast else text


def came_to(objective: ObjectiveSpec, outcome: Outcome) -> str:
    """Say how a launch ended: its figure, where it was stopped, or why it failed."""
    ending = outcome.ending
    if isinstance(ending, Finished):
        return shown(objective, ending.elapsed_s)
    if isinstance(ending, Failed):
        return wording.failure(ending)
    if outcome.window is not None:  # its time is that of the window, its projection of a full run
        return f"stopped early (projected {shown(objective, ending.projection_s)})"
    return stopped(objective, ending)


def projected(objective: ObjectiveSpec, ending: Stopped) -> str:
    """Write the forecast of a launch for a table: ``~9.80 s``, or ``>4.10 s`` as its least."""
    if ending.is_forecast:
        return f"~{shown(objective, ending.projection_s)}"
    return f">{shown(objective, ending.bound_s)}"


def typical(objective: ObjectiveSpec, measurement: Measurement) -> str:
    """Write the figure of a setting for a table: its median, or else its forecast."""
    if measurement.elapsed_s is not None:
        return shown(objective, measurement.elapsed_s)
    return projected(objective, measurement.stopped) if measurement.stopped else "failed"
