"""A surface in place of live jobs.

A window draws one of the point's runs. Its iterations take that run's pace, times a log-normal
factor of mean 1 and `ITERATION_SD`, each its own; how many there are, and which count, say the
rules of :mod:`tuner.live`, which also judge the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.replay.machine import STOP_S, VirtualMachine
from benchmarks.replay.surface import Run, Surface
from tuner.live.full_run import FullRunModel, full_run_model
from tuner.live.running_job import running_job
from tuner.live.window_estimate import WindowEstimate, estimate, is_long_enough, stopped
from tuner.model import (
    Finished,
    LaunchRecord,
    Outcome,
    Purpose,
    Setting,
    StudySpec,
    Window,
)
from tuner.search.stopper import EarlyStopper
from tuner.stats import evidence
from tuner.study.history import History
from tuner.study.policy import Step

#: What a switch takes, s.
SWITCH_S = 0.3

#: The standard deviation of the logarithm of one iteration's time.
ITERATION_SD = 0.1


@dataclass(frozen=True)
class _Entry:
    """How a window is come to: by a switch, or by the start of a job for it."""

    job: int
    started_s: float
    switch_s: float
    first_s: float | None  # what the first iteration takes, where that is the run's own


class LiveMachine(VirtualMachine):
    """Measures in windows; what is confirmed, or failed in one, is launched."""

    def __init__(
        self, surface: Surface, seed: int, spec: StudySpec, neighbours: float = 0.0
    ) -> None:
        super().__init__(surface, seed, neighbours)
        self._spec = spec
        self._live = tuple(sorted(set(surface.knobs) - surface.cold))
        self._failed: set[Setting] = set()

    def warmed_up(self, setting: Setting, /) -> tuple[LaunchRecord, ...]:
        """One launch, none of a setting that fails: windows are scaled by what it shows."""
        runs = self.surface.points[self.surface.key(setting)].runs
        if not runs:
            return ()
        run = self._rng.choice(runs)
        ending = Finished(run.elapsed_s, self.surface.iterations)
        outcome = Outcome(ending, wall_s=0.0, exit_code=0, progress=self._log(run))
        purpose, machine = Purpose.WARM_UP, self._spec.machine
        return (LaunchRecord(0, purpose, setting, (), {}, "", "", outcome, machine),)

    def measure(
        self,
        number: int,
        step: Step,
        stopper: EarlyStopper | None,
        history: History,
        best: Setting | None,
        /,
    ) -> Outcome:
        """Return the outcome of a step, whose record has this number."""
        if step.purpose is Purpose.CONFIRM or step.setting in self._failed:
            return self.launch(step.setting, stopper)
        point = self.surface.points[self.surface.key(step.setting)]
        if point.fail_after_s is not None:
            self._failed.add(step.setting)
            return self.launch(step.setting, None)
        run = self._rng.choice(point.runs)
        n, objective = self.surface.iterations, self._spec.objective
        known = full_run_model(history.records, n, objective, _typical_s(history, best))
        entry = self._entry(number, step, history, run)
        outcome = self._window(run, entry, known, stopper)
        self.clock_s += outcome.wall_s
        return outcome

    def _entry(self, number: int, step: Step, history: History, run: Run) -> _Entry:
        job = running_job(history.spec, history.records, history.pooling.canonical)
        serves = job is not None and job.serves(history.pooling.canonical(step.setting))
        if job is not None and serves and step.purpose is not Purpose.BASELINE:
            return _Entry(job.number, 0.0, SWITCH_S, None)
        ends_s = 0.0 if job is None else STOP_S
        started_s = ends_s + self.wall_s(run.startup_s, ends_s)
        return _Entry(number, started_s, 0.0, run.first_iteration_s)

    def _window(
        self, run: Run, entry: _Entry, known: FullRunModel, stopper: EarlyStopper | None
    ) -> Outcome:
        times_s: list[float] = []
        found, verdict = WindowEstimate(0, ()), None
        wall_s = entry.started_s + entry.switch_s
        for work_s in self._iterations(run, entry.first_s):
            times_s.append(self.wall_s(work_s, wall_s))
            wall_s += times_s[-1]
            found = estimate(times_s)
            if not found.iterations:
                continue
            verdict = stopped(found, known, stopper)
            if verdict is not None or is_long_enough(found, known, self._spec.precision):
                break
        ending = verdict or Finished(known.figure_s(found.pace_s), known.iterations)
        window = Window(
            job=entry.job,
            live=self._live,
            started_s=entry.started_s,
            switch_s=entry.switch_s,
            discarded=found.discarded,
            iterations=found.iterations,
            pace_s=found.pace_s,
            pace_se=found.pace_se if found.iterations > 1 else 0.0,
            at_s=wall_s / 2,
        )
        return Outcome(ending, wall_s, None, window=window)

    def _iterations(self, run: Run, first_s: float | None) -> Iterator[float]:
        pace_s = (run.elapsed_s - run.first_iteration_s) / max(1, self.surface.iterations - 1)
        if first_s is not None:
            yield first_s
        while True:
            factor = math.exp(self._rng.gauss(-(ITERATION_SD**2) / 2, ITERATION_SD))
            yield pace_s * factor


def _typical_s(history: History, setting: Setting | None) -> float | None:
    if setting is None:
        return None
    own = history.of(history.valid, setting)
    return evidence.estimate_s([sample for record in own for sample in record.outcome.samples])
