"""Converts a study's figures to items a second and to money. Pure.

Both follow from a figure that is a time: of a run, of an iteration (a steady state), of whatever a
pattern reads. A rate per time (``ns/day``) has a price too, that of its unit of work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tuner.model import Conclusion, ObjectiveSpec, Result, StudySpec
from tuner.model.errors import UsageError
from tuner.model.figures import number
from tuner.model.units import unit_of

#: What takes the time, by the clock of the figure: for a pattern nobody knows.
_TIMED_BY_CLOCK = {"elapsed": "run", "wall": "run", "steady": "iteration", "none": "timed unit"}


class Timed(NamedTuple):
    """That which takes the time of a figure: ``what`` takes ``unit_s`` times the cost, in s."""

    what: str
    unit_s: float = 1.0


def timed(objective: ObjectiveSpec) -> Timed | None:
    """Return what takes the time of the figures; ``None`` if they are no times and no rates."""
    if objective.is_time:
        return Timed(_TIMED_BY_CLOCK[objective.clock])
    unit = unit_of(objective.unit)
    if not objective.maximize or unit is None or not unit.is_rate or "/" not in objective.unit:
        return None
    return Timed(unit.work, unit.seconds) if unit.work else None


def check(objective: ObjectiveSpec, items: float | None, price_per_hour: float | None) -> None:
    """Refuse items for a figure that is not a time, and a price for one without any time."""
    name = f"The objective ({objective.unit or objective.kind})"
    if items is not None and not objective.is_time:
        raise UsageError(
            f"{name} is not a time, so --samples-per-run {items:g} gives no samples per second",
            "leave it out, or read a time: --objective wall, or a pattern with --unit s",
        )
    if price_per_hour is not None and timed(objective) is None:
        raise UsageError(
            f"{name} tells of no time, so --price-per-hour {price_per_hour:g} has no meaning",
            "read a time (--objective wall), or a rate whose unit names one: --unit ns/day",
        )


def items_per_s(spec: StudySpec, cost: float | None) -> float | None:
    """Return how many items a second a setting processes; ``None`` if that is not asked for."""
    return None if spec.items is None or cost is None else spec.items / cost


def price(spec: StudySpec, cost: float | None) -> float | None:
    """Return the price of the hardware for one unit of `timed`; ``None`` if no price is given."""
    unit = timed(spec.objective)
    if spec.price_per_hour is None or cost is None or unit is None:
        return None
    return spec.price_per_hour * cost * unit.unit_s / 3600


def columns(spec: StudySpec) -> dict[str, Callable[[float | None], float | None]]:
    """Return the columns that the user asked for: functions from a cost to items/s and to money."""
    by_title: dict[str, Callable[[float | None], float | None]] = {}
    if spec.items is not None:
        by_title["items/s"] = lambda cost: items_per_s(spec, cost)
    unit = timed(spec.objective)
    if spec.price_per_hour is not None and unit is not None:
        by_title[f"cost per {unit.what}"] = lambda cost: price(spec, cost)
    return by_title


def proven(result: Result) -> float | None:
    """Return how many times better the best is, as proven; ``None`` if no gain is proven."""
    finding = result.finding
    if result.conclusion is not Conclusion.FASTER or finding is None or result.best is None:
        return None
    return finding.low if finding.at_least else finding.ratio


def saved(spec: StudySpec, result: Result) -> float | None:
    """Return what the best saves of the price, as proven; ``None`` if no gain is proven."""
    ratio, best = proven(result), result.best
    cost = price(spec, best.elapsed_s) if best is not None else None
    return None if cost is None or ratio is None else cost * (ratio - 1)


def lines(spec: StudySpec, result: Result) -> list[str]:
    """Return best and defaults in items a second and in money; empty if neither is asked for."""
    texts = []
    for title, value in columns(spec).items():
        best, baseline = (
            None if side is None else value(side.elapsed_s)
            for side in (result.best, result.baseline)
        )
        unit = " items/s" if title == "items/s" else title.removeprefix("cost")
        parts = [] if best is None else [f"{number(best)}{unit}"]
        if baseline is not None and result.best != result.baseline:
            parts.append(f"{number(baseline)}{'' if parts else unit} with your defaults")
        text, saving = ", ".join(parts), saved(spec, result)
        if text and title != "items/s":
            least = "at least " if result.finding is not None and result.finding.at_least else ""
            text = f"costs {text}" + (f": saves {least}{number(saving)}" if saving else "")
        texts += [text] if text else []
    return texts
