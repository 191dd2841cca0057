"""Converts a running launch to the clock that its figure follows, so that it can be stopped (pure).

A stopper (:mod:`tuner.search.stopper`) compares times with a limit in seconds of the program's
clock. For other figures the stopper gets the log as if the figure were such a clock:

- **Wall**: the time since the launch is the figure so far.
- **Steady**: the figure is ``(t_N - t_w) / (N - w)``; ``w`` is the entry at the end of the warm-up
  (:func:`~tuner.search.throughput.warmed_up`). Once the log has that entry, and ``N`` is known, the
  figure is the program's time since then over a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tuner.model import Clock
from tuner.search.stopper import (
    EarlyStopper,
    FirstOf,
    GoOn,
    Log,
    PaceKnown,
    TimeLimitStopper,
    Verdict,
)
from tuner.search.throughput import warmed_up


@dataclass(frozen=True)
class OnOtherClock:
    """Runs a stopper by another clock than the program's own.

    That clock is the time since the launch began. If ``iterations`` says how many a whole launch
    makes, it is the time since the warm-up over the iterations that remained then.
    """

    stopper: EarlyStopper
    iterations: int | None = None

    def __call__(self, log: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Return what the stopper says of the figure so far."""
        if self.iterations is None:  # as a clock that began with the launch, without a start-up
            return self.stopper([(0, since_launch_s)], since_launch_s, 0.0)
        place = warmed_up(log, self.iterations)
        if place is None or self.iterations <= log[place][0]:
            return GoOn()
        warm_iteration, warm_s = log[place]
        remaining = self.iterations - warm_iteration
        scaled = [(done, (time_s - warm_s) / remaining) for done, time_s in log[place:]]
        if startup_s is None:
            return self.stopper(scaled, 0.0, None)
        return self.stopper(scaled, (since_launch_s - startup_s - warm_s) / remaining, 0.0)

    def in_window(self) -> EarlyStopper:
        """Return the stopper itself: the log of a window is that of the figure."""
        return self.stopper.in_window()


def stopper_by(clock: Clock, stopper: EarlyStopper, iterations: int | None) -> EarlyStopper | None:
    """Return the stopper of a launch whose figure follows from this clock of its objective.

    ``stopper`` compares the figure with a limit. ``None``: the launch runs to its end. A full one
    does ``iterations``, if that is known.
    """
    if clock == "elapsed":
        return stopper
    if clock == "wall":
        return OnOtherClock(stopper)
    return OnOtherClock(stopper, iterations) if clock == "steady" and iterations else None


#: The pace of one side of a comparison is known once its finish is no more uncertain than this (the
#: standard deviation of its logarithm, by the scatter of the launch's own iterations).
PACE_SD = 0.03

#: After this many times what the other side takes, a launch is ended with the pace that it has
#: shown, however uncertain; if it has shown none, its figure is a lower bound.
MOST_TIMES = 5.0


class OtherSide(NamedTuple):
    """What a launch of the other side of a comparison takes to its end."""

    #: How long it took in all, or as long as this side's start has ever taken, if that is longer.
    wall_s: float
    cost: float
    #: How many times its own iterations that is (:func:`~tuner.search.throughput.at_usual_pace`):
    #: a ratio, since the other side may do the same work in more or fewer iterations.
    at_usual_pace: float | None = None


def once_compared(clock: Clock, iterations: int | None, other: OtherSide) -> EarlyStopper:
    """Return what stops the slower side of a comparison once it has shown enough.

    To run on alone would add noise: the machine's disturbances would then hit one side only. Clock
    and iterations are those of `stopper_by`. The faster side shows what comes at the end of a
    launch, after the iterations: that is what its cost has beyond the usual pace.
    """
    most_s = MOST_TIMES * other.cost
    # A launch that logs nothing may still start; the other one started within its wall time.
    rules: list[EarlyStopper] = [TimeLimitStopper(most_s, iterations, other.wall_s)]
    if iterations:
        times = max(1.0, other.at_usual_pace or 1.0)  # 1 for its iterations, the rest for its end
        end_s, end_iterations = other.cost * (1 - 1 / times), iterations * (times - 1)
        rules.insert(0, PaceKnown(iterations, end_s, end_iterations, PACE_SD, most_s))
    by_clock = (stopper_by(clock, rule, iterations) for rule in rules)
    return FirstOf(tuple(filter(None, by_clock)), after_s=other.wall_s)
