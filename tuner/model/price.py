"""Items a second and money: what a study's figures mean beside the time. Pure.

Both follow from a figure that is a time: of a run, of an iteration (a steady state), of whatever a
pattern reads. A rate per time (``ns/day``) has a price too, that of its unit of work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Conclusion, ObjectiveSpec, Result, StudySpec
from tuner.model.errors import UsageError
from tuner.model.figures import number
from tuner.model.units import unit_of

#: What a time is the time of, by its clock: of one that a pattern reads nobody knows.
_OF_CLOCK = {"elapsed": "run", "wall": "run", "steady": "iteration", "none": "timed unit"}


@dataclass(frozen=True)
class Timed:
    """What a cost is the time of: ``what`` takes ``unit_s`` times the cost in seconds."""

    what: str
    unit_s: float = 1.0


def timed(objective: ObjectiveSpec) -> Timed | None:
    """What the figures are the time of; ``None`` if they tell of no time."""
    if objective.is_time:
        return Timed(_OF_CLOCK[objective.clock])
    unit = unit_of(objective.unit)
    names_work = unit is not None and unit.work and "/" in objective.unit
    is_rate = objective.maximize and unit is not None and unit.is_rate and names_work
    return Timed(unit.work, unit.seconds) if unit is not None and is_rate else None


def check(objective: ObjectiveSpec, items: float | None, price_per_hour: float | None) -> None:
    """Refuse what a figure does not tell.

    Raises:
        UsageError: Items of a figure that is not a time, or a price of one that tells of none.
    """
    called = f"The objective ({objective.unit or objective.kind})"
    if items is not None and not objective.is_time:
        raise UsageError(
            f"{called} is not a time, so --samples-per-run {items:g} gives no samples per second",
            "leave it out, or read a time: --objective wall, or a pattern with --unit s",
        )
    if price_per_hour is not None and timed(objective) is None:
        raise UsageError(
            f"{called} tells of no time, so --price-per-hour {price_per_hour:g} has no meaning",
            "read a time (--objective wall), or a rate whose unit names one: --unit ns/day",
        )


def items_per_s(spec: StudySpec, cost: float | None) -> float | None:
    """How many items a second a setting works through; ``None`` if that is not asked for."""
    return None if spec.items is None or cost is None else spec.items / cost


def price(spec: StudySpec, cost: float | None) -> float | None:
    """What the hardware costs for what is timed; ``None`` if no price is given."""
    unit = timed(spec.objective)
    if spec.price_per_hour is None or cost is None or unit is None:
        return None
    return spec.price_per_hour * cost * unit.unit_s / 3600


def saved(spec: StudySpec, result: Result) -> float | None:
    """What the best saves of the price, as far as that is proven; ``None`` if nothing is."""
    finding, best = result.finding, result.best
    if result.conclusion is not Conclusion.FASTER or finding is None or best is None:
        return None
    cost = price(spec, best.elapsed_s)
    ratio = finding.low if finding.at_least else finding.ratio
    return None if cost is None else cost * (ratio - 1)


def lines(spec: StudySpec, result: Result) -> list[str]:
    """Best and defaults in items a second and in money; empty if neither is asked for."""
    unit, said = timed(spec.objective), []
    if items := _side_by_side(result, lambda cost: items_per_s(spec, cost), " items/s"):
        said.append(items)
    what = "" if unit is None else f" per {unit.what}"
    if money := _side_by_side(result, lambda cost: price(spec, cost), what):
        less, finding = saved(spec, result), result.finding
        least = "at least " if finding is not None and finding.at_least else ""
        said.append(f"costs {money}" + (f": saves {least}{number(less)}" if less else ""))
    return said


def _side_by_side(result: Result, value: Callable[[float | None], float | None], unit: str) -> str:
    """``81.3 items/s, 35.2 with your defaults``; empty if nothing is known of either."""
    best, baseline, texts = result.best, result.baseline, list[str]()
    if best is not None and baseline is not None and best.setting == baseline.setting:
        best = None
    for side, whose in ((best, ""), (baseline, " with your defaults")):
        figure = None if side is None else value(side.elapsed_s)
        if figure is not None:
            texts.append(f"{number(figure)}{'' if texts else unit}{whose}")
    return ", ".join(texts)
