"""What the log of a launch shows: its pace, its steady state, its start-up and its clock. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from tuner.model import Progress

#: A program warms up in this share of its iterations (the first passes over its data and its code):
#: the steady state begins with the first entry of the log after them.
WARM_UP_SHARE = 0.2


@dataclass(frozen=True)
class Pace:
    """How a job logs.

    A program may keep entries back, and write many at once or all at its end: ``interval`` is as
    the looks at the log showed it.
    """

    interval: int | None = None  # the most iterations between two looks that showed new entries
    warm_up_iterations: float | None = None  # as how many later ones the first cost more
    cv: float | None = None  # the relative spread of one interval's time

    @classmethod
    def of(cls, progress: Sequence[Progress]) -> Pace | None:
        """Learn from a log; return ``None`` from an empty one."""
        if not progress:
            return None
        # Entries of one look have its time in common; without times each had a look of its own.
        looks = groupby(progress, lambda e: e.iteration if e.seen_s is None else e.seen_s)
        last_of_look = [list(entries)[-1].iteration for _, entries in looks]
        interval = max((b - a for a, b in pairwise(last_of_look)), default=None)
        first, last = progress[0], progress[-1]
        if last.iteration <= first.iteration or last.elapsed_s <= first.elapsed_s:
            return cls(interval)
        pace = (last.elapsed_s - first.elapsed_s) / (last.iteration - first.iteration)
        steps = [
            (b.elapsed_s - a.elapsed_s) / (b.iteration - a.iteration) / pace
            for a, b in pairwise(progress)
            if b.iteration > a.iteration
        ]
        cv = _sd(steps) if len(steps) >= 3 else None
        return cls(interval, max(0.0, first.elapsed_s / pace - first.iteration), cv)


def _sd(values: Sequence[float]) -> float:
    """Return the standard deviation; :func:`statistics.stdev` takes 20 times as long a launch."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def warmed_up(log: Sequence[tuple[int, float]], iterations: int) -> int | None:
    """Return the place of the entry that begins the steady state, ``None`` before there is one.

    The log is (iteration, elapsed_s), the oldest first; the run does this many iterations.
    """
    places = range(len(log))
    return next((n for n in places if log[n][0] >= WARM_UP_SHARE * iterations), None)


def steady_s(log: Sequence[tuple[int, float]]) -> float | None:
    """Return the seconds an iteration takes after the warm-up, ``None`` without an entry there."""
    place = warmed_up(log, log[-1][0]) if log else None
    if place is None or log[-1][0] == log[place][0] or log[-1][1] == log[place][1]:
        return None
    return (log[-1][1] - log[place][1]) / (log[-1][0] - log[place][0])


def at_usual_pace(log: Sequence[Progress]) -> float | None:
    """Return how many times its iterations a whole run takes, if its end counts as iterations too.

    At its end a program may do more than iterations: it evaluates its model, and saves it. The log
    before its last entry shows the usual pace.
    """
    if len(log) < 3:
        return None
    first, last, end = log[0], log[-2], log[-1]
    if last.iteration <= first.iteration or last.elapsed_s <= first.elapsed_s:
        return None
    pace = (last.elapsed_s - first.elapsed_s) / (last.iteration - first.iteration)
    return (last.iteration + (end.elapsed_s - last.elapsed_s) / pace) / end.iteration


#: Clocks may differ by this share and this many seconds.
CLOCK_SHARE, CLOCK_S = 0.02, 0.1


def is_longer(time_s: float, wall_s: float, slack_s: float = CLOCK_S) -> bool:
    """Return whether a time cannot have passed within ``wall_s``."""
    return time_s > wall_s * (1 + CLOCK_SHARE) + slack_s


def began_before(progress: Sequence[Progress], wall_s: float, slack_s: float = CLOCK_S) -> bool:
    """Return whether the program's clock began before its launch: an earlier run's log goes on.

    The launch has taken ``wall_s`` so far; a log that is ahead of it by ``slack_s`` may be its own.
    """
    if not progress:
        return False
    last = progress[-1]
    return is_longer(last.elapsed_s, wall_s if last.seen_s is None else last.seen_s, slack_s)


def startup_s(progress: Sequence[Progress]) -> float | None:
    """Return the seconds from launch to the zero of the program's clock, ``None`` without a log.

    Of the entries that the first look showed the last was written closest to the look.
    """
    if not progress or progress[0].seen_s is None:
        return None
    last = [entry for entry in progress if entry.seen_s == progress[0].seen_s][-1]
    return max(0.0, progress[0].seen_s - last.elapsed_s)
