"""A surface in place of live jobs.

A window draws one of the point's runs. Its iterations take that run's pace, times a log-normal
factor of mean 1 and `ITERATION_SD`, each its own; how many there are, and which count, say the
rules of :mod:`tuner.live`, which also judge the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.replay.machine import STOP_S, VirtualMachine
from benchmarks.replay.surface import Run, Surface
from tuner.live.eligibility import is_reachable
from tuner.live.full_run import full_run_model
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
        own = [] if best is None else history.of(history.valid, best)
        best_s = evidence.estimate_s([sample for each in own for sample in each.outcome.samples])
        model = full_run_model(history.records, n, objective, best_s)
        job = running_job(history.spec, history.records)
        serves = False
        if job is not None and (last := history.records[-1].outcome.window) is not None:
            target = history.pooling.canonical(step.setting)
            serves = is_reachable(job.canonical, target, frozenset(last.live))
        started_s, switch_s = 0.0, SWITCH_S
        first_s: float | None = None  # what the first iteration takes, if that is the run's own
        if job is not None and serves and step.purpose is not Purpose.BASELINE:
            number = history.records[-1].job or number
        else:  # a job is started for it
            ends_s = 0.0 if job is None else STOP_S
            started_s, switch_s = ends_s + self.wall_s(run.startup_s, ends_s), 0.0
            first_s = run.first_iteration_s
        times_s: list[float] = []
        window, verdict = WindowEstimate(0, ()), None
        wall_s = started_s + switch_s
        for work_s in self._iterations(run, first_s):
            times_s.append(self.wall_s(work_s, wall_s))
            wall_s += times_s[-1]
            window = estimate(times_s)
            if not window.iterations:
                continue
            verdict = stopped(window, model, stopper)
            if verdict is not None or is_long_enough(window, model, self._spec.precision):
                break
        self.clock_s += wall_s
        error = window.pace_se if window.iterations > 1 else 0.0
        measured = window.discarded, window.iterations, window.pace_s, error, wall_s / 2
        return Outcome(
            verdict or Finished(model.figure_s(window.pace_s), model.iterations),
            wall_s,
            None,
            window=Window(number, self._live, started_s, switch_s, *measured),
        )

    def _iterations(self, run: Run, first_s: float | None) -> Iterator[float]:
        pace_s = (run.elapsed_s - run.first_iteration_s) / max(1, self.surface.iterations - 1)
        if first_s is not None:
            yield first_s
        while True:
            factor = math.exp(self._rng.gauss(-(ITERATION_SD**2) / 2, ITERATION_SD))
            yield pace_s * factor
