"""The race as a pruner of Optuna, for any study that minimises a time.

The objective reports the time so far after some of its iterations:

    trial.report(elapsed_s, step=iteration)
    if trial.should_prune():
        raise optuna.TrialPruned
"""

from __future__ import annotations

from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.model import Progress, Purpose, Stopped
from tuner.search.history import SearchObservation, noise
from tuner.search.stopper import Limit, ProjectionStopper
from tuner.search.throughput import Pace

#: The system attribute of a pruned trial: where it was heading, in the unit of the objective.
PROJECTION = "tuner:projection"


class RacePruner(BasePruner):
    """Stops a trial once its forecast says that it cannot beat the best one.

    What is reported is the time so far, its step the number of iterations done; the value of a
    complete trial is the time of all. A trial has as many iterations as the longest complete one
    so far, so the first one is never stopped. The forecast allows for its own error, and for
    that of single runs (:mod:`tuner.search.stopper`).

    Args:
        run_sd: What runs of one setting differ by, as the standard deviation of the logarithm.
    """

    def __init__(self, *, run_sd: float = 0.05) -> None:
        self._run_sd = run_sd

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """True if the trial cannot win any more.

        Raises:
            ValueError: The study maximises, or has several objectives.
        """
        if study.directions != [StudyDirection.MINIMIZE]:
            raise ValueError("RacePruner stops what takes longer: the study must minimise a time")
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        times = [each.value for each in complete if each.value is not None and each.value > 0]
        log = _log(trial)
        if not times or not log:
            return False
        iterations = max((max(each.intermediate_values, default=0) for each in complete), default=0)
        learned = noise([_observation(each) for each in complete], self._run_sd)
        race = ProjectionStopper(Limit(min(times)), learned, iterations or None)
        verdict = race(log, log[-1][1], None)
        if not isinstance(verdict, Stopped):
            return False
        study._storage.set_trial_system_attr(trial._trial_id, PROJECTION, verdict.projection_s)
        return True


def _log(trial: FrozenTrial) -> list[tuple[int, float]]:
    """(iterations, time so far), the oldest first; the time of no iteration is left out."""
    return [
        (step, s) for step, s in sorted(trial.intermediate_values.items()) if step > 0 and s > 0
    ]


def _observation(trial: FrozenTrial) -> SearchObservation:
    """What the log of a complete trial teaches of the logs to come."""
    log = tuple(Progress(step, elapsed_s) for step, elapsed_s in _log(trial))
    return SearchObservation(
        None, "finished", Purpose.SEARCH, wall_s=trial.value or 0.0, pace=Pace.of(log)
    )
