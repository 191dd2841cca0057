"""The clock that a running launch's figure follows, so that it can be stopped early (pure).

A stopper (:mod:`tuner.search.stopper`) compares times with a limit in seconds of the program's
clock. For other figures it is shown the launch as if its figure were such a clock:

- **Wall**: the time since the launch is the figure so far.
- **Steady**: the figure is ``(t_N - t_w) / (N - w)``; ``w`` is the entry at the end of the warm-up
  (:func:`~tuner.search.throughput.warmed_up`). Once that is seen, and ``N`` is known, it is the
  clock since then over a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Clock
from tuner.search.stopper import EarlyStopper, GoOn, Log, Verdict
from tuner.search.throughput import warmed_up

#: What a stopper is shown: the log, the time since the launch, and its start-up.
View = tuple[Log, float, float | None]


@dataclass(frozen=True)
class Through:
    """A stopper that sees a launch as ``view`` shows it; ``None``: nothing can be seen yet."""

    stopper: EarlyStopper
    view: Callable[[Log, float, float | None], View | None]

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """What the stopper says of the view."""
        seen = self.view(progress, since_launch_s, startup_s)
        return GoOn() if seen is None else self.stopper(*seen)


def stopper_by(clock: Clock, stopper: EarlyStopper, iterations: int | None) -> EarlyStopper | None:
    """The stopper for a launch whose figure follows from this clock; ``None``: it runs to its end.

    Args:
        clock: That of the objective.
        stopper: Compares the figure with a limit.
        iterations: How many a full launch does; ``None`` if that is not known.
    """

    def wall(_: Log, since_launch_s: float, __: float | None, /) -> View:
        return [(0, since_launch_s)], since_launch_s, 0.0

    def steady(log: Log, since_launch_s: float, startup_s: float | None, /) -> View | None:
        place = warmed_up(log, iterations or 0)
        left = 0 if place is None else (iterations or 0) - log[place][0]
        if place is None or left <= 0:
            return None
        since_s = log[place][1]
        view = [(done, (time_s - since_s) / left) for done, time_s in log[place:]]
        if startup_s is None:
            return view, 0.0, None
        return view, (since_launch_s - startup_s - since_s) / left, 0.0

    if clock == "elapsed":
        return stopper
    if clock == "wall":
        return Through(stopper, wall)
    return Through(stopper, steady) if clock == "steady" and iterations else None
