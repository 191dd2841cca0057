"""The race as a pruner of Optuna: it stops a trial that cannot win, in ``tune`` and elsewhere.

The objective reports the time so far after some of its iterations:

    trial.report(elapsed_s, step=iteration)
    if trial.should_prune():
        raise optuna.TrialPruned
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.model import Progress, Purpose, Stopped
from tuner.search.launch_groups import SearchObservation, noise
from tuner.search.stopper import EarlyStopper, Limit, Log, ProjectionStopper
from tuner.search.throughput import Pace
from tuner.stats.noise import RUNS

#: A system attribute of a trial that the race has pruned: the fields of
#: :class:`tuner.model.Stopped`.
STOPPED = "tuner:stopped"


class Running(NamedTuple):
    """How far a running trial has got, and the stopper that judges it; see `EarlyStopper`."""

    race: EarlyStopper
    log: Log
    since_launch_s: float
    startup_s: float | None


class RacePruner(BasePruner):
    """Stops a trial once its forecast says that it cannot beat the best one.

    A trial reports the time so far, with the number of iterations done as the step; the value of a
    complete trial is the time of all. A trial has as many iterations as the longest complete one
    so far, so the first one is never stopped. The forecast allows for its own error, and for
    that of single runs (:mod:`tuner.search.stopper`), whose logarithms have the standard deviation
    ``run_sd``. ``running`` gives how far a trial has got, and the stopper that judges it (``None``:
    it goes on); by default that is the last report, and a race against the best complete trial.
    """

    def __init__(
        self,
        *,
        run_sd: float = RUNS.sd,
        running: Callable[[Study, FrozenTrial], Running | None] | None = None,
    ) -> None:
        self._run_sd, self._running = run_sd, running or self._against_the_best

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the trial cannot win; a ``ValueError`` if no time is minimised."""
        running = self._running(study, trial)
        if running is None:
            return False
        verdict = running.race(running.log, running.since_launch_s, running.startup_s)
        if not isinstance(verdict, Stopped):
            return False
        study._storage.set_trial_system_attr(trial._trial_id, STOPPED, asdict(verdict))
        return True

    def _against_the_best(self, study: Study, trial: FrozenTrial) -> Running | None:
        log = _log(trial)
        if not log:
            return None
        if study.directions != [StudyDirection.MINIMIZE]:
            raise ValueError("RacePruner stops what takes longer: the study must minimise a time")
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        times_s = [trial.value for trial in complete if trial.value is not None and trial.value > 0]
        if not times_s:
            return None
        iterations = max(max(trial.intermediate_values, default=0) for trial in complete)
        learned_noise = noise([_observation(trial) for trial in complete], self._run_sd)
        race = ProjectionStopper(Limit(min(times_s)), learned_noise, iterations or None)
        return Running(race, log, since_launch_s=log[-1][1], startup_s=None)


def stopped(system_attrs: dict[str, Any]) -> Stopped | None:
    """Return why the race has pruned a trial; ``None``: it has not pruned it."""
    fields = system_attrs.get(STOPPED)
    return None if fields is None else Stopped(**fields)


def projection(trial: FrozenTrial) -> float | None:
    """Return the projection of a trial that the race has pruned; ``None``: it has not."""
    verdict = stopped(trial.system_attrs)
    return None if verdict is None else verdict.projection_s


def _log(trial: FrozenTrial) -> list[tuple[int, float]]:
    """Return (iterations, time so far), the oldest first, without reports before the first one."""
    return [
        (step, s) for step, s in sorted(trial.intermediate_values.items()) if step > 0 and s > 0
    ]


def _observation(trial: FrozenTrial) -> SearchObservation:
    """Return the observation of a complete trial, with the pace that its log shows."""
    pace = Pace.of([Progress(step, elapsed_s) for step, elapsed_s in _log(trial)])
    return SearchObservation(None, "finished", Purpose.SEARCH, trial.value or 0.0, pace=pace)
