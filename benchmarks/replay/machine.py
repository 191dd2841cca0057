"""A surface in place of the machine: launches are drawn, time is a number.

The recorded times are of the quiet machine. With neighbours they are the work of a launch, which
takes longer while others take their share (`benchmarks.pairs.Machine`).
"""

from __future__ import annotations

import random

import numpy as np

from benchmarks.pairs import Machine as SharedMachine
from benchmarks.replay.surface import Run, Surface
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Outcome,
    Progress,
    Setting,
    Stopped,
)
from tuner.search.stopper import EarlyStopper
from tuner.search.throughput import startup_s
from tuner.study.history import History
from tuner.study.policy import Step

#: What the clean-up after a stopped launch takes, s.
STOP_S = 0.5

#: A log has this many entries, evenly spaced.
ENTRIES = 20

#: With neighbours a study takes at most so many launches of the best.
LONGEST_STUDY = 2000

#: How often a running launch is judged between its log entries, s.
TICK_S = 0.5

#: What the recorded reason of a failure says, and the kind that it is; else it crashed.
_KINDS = {
    "memory": FailureKind.OUT_OF_MEMORY,
    "MemoryError": FailureKind.OUT_OF_MEMORY,
    "thread": FailureKind.THREADS,
}


class VirtualMachine:
    """Runs one launch at a time; ``clock_s`` is the virtual time used so far.

    The seed says which runs are drawn, and when ``neighbours`` take this share of the machine.
    """

    def __init__(self, surface: Surface, seed: int, neighbours: float = 0.0) -> None:
        self.surface, self.clock_s = surface, 0.0
        self._rng = random.Random(seed)
        self._shared: SharedMachine | None = None
        if neighbours:
            study_s = LONGEST_STUDY * surface.unit_s
            self._shared = SharedMachine(neighbours, np.random.default_rng(seed), study_s)

    def warmed_up(self, _setting: Setting, /) -> tuple[LaunchRecord, ...]:
        """What is launched and thrown away before a study begins with a setting: it costs nothing.

        Only what is measured in windows needs it.
        """
        return ()

    def measure(
        self,
        _number: int,
        step: Step,
        stopper: EarlyStopper | None,
        _plan: History,
        _best: Setting | None,
        /,
    ) -> Outcome:
        """The outcome of a step: here each is a launch of its own."""
        return self.launch(step.setting, stopper)

    def launch(self, setting: Setting, stopper: EarlyStopper | None) -> Outcome:
        """Draw one of the point's runs and follow it; without a stopper it runs to its end."""
        point = self.surface.points[self.surface.key(setting)]
        log: tuple[Progress, ...] = ()
        ending: Finished | Failed
        if point.fail_after_s is not None:
            end_s = self.wall_s(point.fail_after_s)
            ending = Failed(_kind(point.reason), point.reason)
        else:
            run = self._rng.choice(point.runs)
            start_s = self.wall_s(run.startup_s)
            elapsed_s = self.wall_s(run.elapsed_s, start_s)
            end_s, log = start_s + elapsed_s, self._log(run)
            ending = Finished(elapsed_s, self.surface.iterations)
        outcome = None if stopper is None else _stopped(log, end_s, stopper)
        if outcome is None:
            outcome = Outcome(ending, end_s, int(isinstance(ending, Failed)), log)
        self.clock_s += outcome.wall_s
        return outcome

    def _log(self, run: Run) -> tuple[Progress, ...]:
        """The entries of a run's log: linear after the first iteration."""
        n = self.surface.iterations
        steps = sorted({max(1, round(n * number / ENTRIES)) for number in range(1, ENTRIES + 1)})
        pace_s = (run.elapsed_s - run.first_iteration_s) / max(1, n - 1)
        start_s, entries = self.wall_s(run.startup_s), []
        for step in steps:
            time_s = self.wall_s(run.first_iteration_s + (step - 1) * pace_s, start_s)
            entries.append(Progress(step, time_s, start_s + time_s))
        return tuple(entries)

    def wall_s(self, work_s: float, after_s: float = 0.0) -> float:
        """Return how long some work takes that begins so many seconds from now."""
        if self._shared is None:
            return work_s
        return self._shared.wall_s(self.clock_s + after_s, work_s)


def _kind(reason: str) -> FailureKind:
    """The kind of failure that a recorded reason tells of."""
    for words, kind in _KINDS.items():
        if words in reason:
            return kind
    return FailureKind.CRASHED


def _stopped(log: tuple[Progress, ...], end_s: float, stopper: EarlyStopper) -> Outcome | None:
    """Judge a launch at each entry and each tick; ``None``: it comes to its end by itself."""
    seen = 0
    time_s = 0.0
    while True:
        tick_s = time_s + TICK_S
        coming_s = log[seen].seen_s if seen < len(log) else None
        if coming_s is not None and coming_s <= tick_s:
            time_s, seen = coming_s, seen + 1
        else:
            time_s = tick_s
        if time_s >= end_s - 1e-9:
            return None
        entries = log[:seen]
        pairs = [(entry.iteration, entry.elapsed_s) for entry in entries]
        verdict = stopper(pairs, time_s, startup_s(entries))
        if isinstance(verdict, Stopped):
            return Outcome(verdict, time_s + STOP_S, None, entries)
