"""When the time that the tuning took has been saved again. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.model import Conclusion, Result


@dataclass(frozen=True)
class BreakEven:
    """What the study cost, what is saved, and after how many of these it has paid.

    ``unit`` is an ``epoch`` where the program's log tells of epochs, else a ``run`` like those
    measured; ``at_least`` if only a lower end of the saving is proven.
    """

    cost_s: float
    saved_s: float
    unit: str
    units: int
    at_least: bool


def break_even(result: Result) -> BreakEven | None:
    """The break-even of a study that found something faster; ``None`` for any other.

    The saving is the best's median time of a run (of a steady state: of all its iterations)
    times the proven ratio minus 1 (the estimate, or the lower end if only that is claimed).
    A figure that is no time of the run tells of no saving, a time that is read by a pattern
    neither: nobody knows what it is the time of.
    """
    finding, best, clock = result.finding, result.best, result.objective.clock
    if result.conclusion is not Conclusion.FASTER or finding is None or best is None:
        return None
    if best.elapsed_s is None or clock == "none":
        return None
    ratio = finding.low if finding.at_least else finding.ratio
    run_s = best.elapsed_s * (best.samples[-1].iterations if clock == "steady" else 1)
    saved_s, unit = run_s * (ratio - 1), "run"
    epochs = best.samples[-1].epochs
    if epochs:
        saved_s, unit = saved_s / epochs, "epoch"
    cost_s = result.search_s + result.confirm_s
    return BreakEven(cost_s, saved_s, unit, math.ceil(cost_s / saved_s), finding.at_least)
