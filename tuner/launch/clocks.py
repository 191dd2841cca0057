"""The clock that a running launch's figure follows, so that it can be stopped early (pure).

A stopper (:mod:`tuner.search.stopper`) compares times with a limit in seconds of the program's
clock. For another objective it is shown the launch as if its figure were such a clock, or never
asked: of a figure that is no time of the launch nothing is known before its end.

**Wall.** The time since the launch is the figure so far.

**Steady.** The figure is ``(t_N - t_w) / (N - w)``, with ``w`` the entry at the end of the warm-up
(:func:`~tuner.search.throughput.warmed_up`): once that is seen, and ``N`` is known, it is the clock
since then over a constant. Before, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Clock
from tuner.search.stopper import EarlyStopper, GoOn, Log, Verdict
from tuner.search.throughput import warmed_up

#: What a judge is shown: the log, the time since the launch, and its start-up.
View = tuple[Log, float, float | None]


@dataclass(frozen=True)
class Through:
    """A judge that sees the launch as ``view`` shows it; ``None``: there is nothing to see yet."""

    judge: EarlyStopper
    view: Callable[[Log, float, float | None], View | None]

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """What the judge says of the view."""
        seen = self.view(progress, since_launch_s, startup_s)
        return GoOn() if seen is None else self.judge(*seen)


@dataclass(frozen=True)
class Steady:
    """The clock since the warm-up, over the iterations from there to the end."""

    iterations: int

    def __call__(
        self, progress: Log, since_launch_s: float, startup_s: float | None, /
    ) -> View | None:
        """The log from the end of the warm-up on, its times in seconds an iteration."""
        place = warmed_up(progress, self.iterations)
        left = 0 if place is None else self.iterations - progress[place][0]
        if place is None or left <= 0:
            return None
        since_s = progress[place][1]
        log = [(done, (time_s - since_s) / left) for done, time_s in progress[place:]]
        if startup_s is None:
            return log, 0.0, None
        return log, (since_launch_s - startup_s - since_s) / left, 0.0


def wall(_: Log, since_launch_s: float, __: float | None, /) -> View:
    """The time since the launch as the only entry of a log."""
    return [(0, since_launch_s)], since_launch_s, 0.0


def judge_by(clock: Clock, judge: EarlyStopper, iterations: int | None) -> EarlyStopper | None:
    """The judge for a launch whose figure follows from this clock; ``None``: it runs to its end.

    Args:
        clock: That of the objective.
        judge: Holds the figure against a limit.
        iterations: How many a full launch does; ``None`` if that is not known.
    """
    if clock == "elapsed":
        return judge
    if clock == "wall":
        return Through(judge, wall)
    if clock == "steady" and iterations:
        return Through(judge, Steady(iterations))
    return None
