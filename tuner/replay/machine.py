"""A surface in place of the machine: launches are drawn, time is a number."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tuner.racing import GoOn, Stop
from tuner.replay.surface import Key, Surface
from tuner.search.history import Ending

#: What the clean-up after a stopped launch takes, s.
STOP_S = 0.5

#: A log has this many entries, evenly spaced.
ENTRIES = 20

#: How often a running launch is judged between its log entries, s.
TICK_S = 0.5

#: (log so far, seconds since the launch, its start-up where the log has shown it) -> verdict.
Judge = Callable[[list[tuple[int, float]], float, float | None], GoOn | Stop]


@dataclass(frozen=True)
class Played:
    """What a launch came to, as far as a real one would have shown it."""

    ending: Ending
    wall_s: float
    elapsed_s: float | None = None
    startup_s: float | None = None  # None where no entry was seen
    progress: tuple[tuple[int, float], ...] = ()
    stop: Stop | None = None
    reason: str = ""


class VirtualMachine:
    """Runs one launch at a time; ``clock_s`` is the virtual time used so far."""

    def __init__(self, surface: Surface, seed: int) -> None:
        self.surface, self.clock_s = surface, 0.0
        self._rng = random.Random(seed)

    def launch(self, key: Key, judge: Judge | None) -> Played:
        """Draw one of the point's runs and follow it; without a judge it runs to its end."""
        point = self.surface.points[key]
        if point.fail_after_s is not None:
            end_s, entries = point.fail_after_s, []
        else:
            run = self._rng.choice(point.runs)
            end_s = run.startup_s + run.elapsed_s
            entries = [
                (run.startup_s + elapsed_s, (iteration, elapsed_s))
                for iteration, elapsed_s in self._log(run.first_iteration_s, run.elapsed_s)
            ]
        played = _follow(entries, end_s, judge)
        if played is None and point.fail_after_s is not None:
            played = Played("failed", end_s, reason=point.reason)
        elif played is None:
            log = tuple(entry for _, entry in entries)
            played = Played("finished", end_s, run.elapsed_s, run.startup_s, log)
        self.clock_s += played.wall_s
        return played

    def _log(self, first_s: float, elapsed_s: float) -> list[tuple[int, float]]:
        """The entries of a run's log: linear after the first iteration."""
        n = self.surface.iterations
        steps = sorted({max(1, round(n * number / ENTRIES)) for number in range(1, ENTRIES + 1)})
        pace_s = (elapsed_s - first_s) / max(1, n - 1)
        return [(step, first_s + (step - 1) * pace_s) for step in steps]


def _follow(
    entries: list[tuple[float, tuple[int, float]]], end_s: float, judge: Judge | None
) -> Played | None:
    """Judge a launch at each entry and each tick; ``None``: it came to its end by itself."""
    if judge is None:
        return None
    seen: list[tuple[int, float]] = []
    startup_s: float | None = None
    time_s = 0.0
    while True:
        tick_s = time_s + TICK_S
        if len(seen) < len(entries) and entries[len(seen)][0] <= tick_s:
            time_s, entry = entries[len(seen)]
            seen.append(entry)
            startup_s = time_s - entry[1]
        else:
            time_s = tick_s
        if time_s >= end_s - 1e-9:
            return None
        verdict = judge(seen, time_s, startup_s)
        if isinstance(verdict, Stop):
            return Played("killed", time_s + STOP_S, None, startup_s, tuple(seen), verdict)
