"""Runs of a training program, and what can be read of them while they go on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tuner.model import Progress
from tuner.search.throughput import startup_s

#: Iterations between two entries of the log.
ENTRY = 10


@dataclass(frozen=True)
class Training:
    """A run: when its log could be read, and what it says then."""

    startup_s: float
    entries: tuple[tuple[int, float], ...]
    burst: int  # so many entries are written at once; the rest at the end
    delay_s: float  # until somebody looks

    @property
    def elapsed_s(self) -> float:
        return self.entries[-1][1]

    @property
    def end_s(self) -> float:
        return self.startup_s + self.elapsed_s

    def look(self, since_launch_s: float) -> tuple[list[tuple[int, float]], float, float | None]:
        """What a stopper is shown so long after the launch: the log, this time, the start-up."""
        shown: list[Progress] = []
        for first in range(0, len(self.entries), self.burst):
            burst = self.entries[first : first + self.burst]
            seen_s = self.startup_s + burst[-1][1] + self.delay_s
            if seen_s <= since_launch_s:
                shown += [Progress(k, elapsed_s, seen_s) for k, elapsed_s in burst]
        log = [(entry.iteration, entry.elapsed_s) for entry in shown]
        return log, since_launch_s, startup_s(shown)


@st.composite
def trainings(draw: st.DrawFn, delays_s: Sequence[float] = (0.0, 0.1, 2.0)) -> Training:
    """Uneven runs with a slow first step, any start-up, and a log in bursts."""
    steps = draw(st.lists(st.floats(0.01, 20), min_size=1, max_size=20))
    times = itertools.accumulate(steps, initial=draw(st.floats(0.01, 60)))
    return Training(
        draw(st.floats(0, 100)),
        tuple((ENTRY * k, elapsed_s) for k, elapsed_s in enumerate(times, start=1)),
        draw(st.sampled_from([1, 2, 5, 100])),
        draw(st.sampled_from(delays_s)),
    )
