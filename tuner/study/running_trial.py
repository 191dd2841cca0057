"""Running trials: Optuna's study has been asked for them, and their launches have not ended."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import optuna
from optuna.distributions import IntDistribution
from optuna.exceptions import OptunaError, StorageInternalError, UpdateFinishedTrialError
from optuna.storages._heartbeat import BaseHeartbeat
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tuner.knobs.conditions import parents_first
from tuner.knobs.space import values
from tuner.model import Choice, Knob, Progress, Purpose, Setting, Stopped, Value
from tuner.search.pruner import RacePruner, Running, stopped
from tuner.search.stopper import EarlyStopper, GoOn, Log, Verdict, elapsed_bound
from tuner.store import database
from tuner.study.history import History
from tuner.study.optuna_plugins import guarded, yes_or_no
from tuner.study.policy import Step
from tuner.study.reader import HOST
from tuner.study.trials import distribution

#: The least time between two reports, s, and the most that reports may take of a launch, a share.
REPORT_EVERY_S, MOST_SHARE = 1.0, 0.01

#: A launch whose length is known reports this many times, so that trials have the same steps.
REPORTS = 10

#: The standard deviation of the logarithm of a projection, for launches that another pruner than
#: ours has stopped.
_LOG_SD = 0.3


def suggested(trial: optuna.Trial, knobs: tuple[Knob, ...]) -> Setting:
    """Return the setting that the sampler suggests: a value of each knob that exists in it.

    A value outside of its domain is a ``ValueError``.
    """
    names = {knob.name for knob in knobs}
    chosen: dict[str, Value] = {}
    for knob in parents_first(knobs):
        if any(parent in names and chosen.get(parent) not in on for parent, on in knob.when):
            continue  # it does not exist beside these values
        value: Value
        choices = distribution(knob.domain)
        if isinstance(choices, IntDistribution):
            value = trial.suggest_int(knob.name, choices.low, choices.high, step=choices.step)
        else:
            assert isinstance(knob.domain, Choice)
            value = cast("Value", trial.suggest_categorical(knob.name, knob.domain.values))
        if value not in values(knob.domain):
            raise ValueError(f"it suggests {knob.name}={value!r}, which is outside of the space")
        chosen[knob.name] = value
    return Setting.of(chosen)


class RunningTrial:
    """A trial, with the step that it carries out. The folder is for the traceback of a pruner."""

    def __init__(
        self,
        trial: optuna.Trial,
        step: Step,
        history: History,
        folder: Path,
        redraws: int = 0,
    ) -> None:
        self.trial, self._spec, self.folder = trial, history.spec, folder
        self.step = step
        #: How many suggestions before this one were measured already, or ruled out.
        self.redraws = redraws
        self.launch = 0  # the number of the launch
        self.has_news = False  # a report has come that no pruner has judged
        self.progress: Running | None = None  # what our own pruner judges
        self.iterations = history.expected_iterations(step.setting)
        self._next_beat_s = -math.inf
        self._next_report_s = self._next_step = 0.0

    @classmethod
    def suggested(
        cls, trial: optuna.Trial, step: Step, history: History, folder: Path, redraws: int
    ) -> RunningTrial:
        """Return the trial of the search, with the setting that its sampler suggests."""
        if database.is_shared(trial.storage):  # before the parameters: other hosts read both
            _beat(trial)
            trial.set_user_attr(HOST, history.spec.machine.hostname)
        knobs, enqueued = history.knobs, step.setting.as_dict()
        if step.purpose.stage.may_leave_knobs_out:
            attributes = trial.storage.get_trial_system_attrs(trial._trial_id)
            params = attributes.get("fixed_params", trial.relative_params)
            if params.keys() == enqueued.keys():
                knobs = tuple(knob for knob in knobs if knob.name in enqueued)
        setting = suggested(trial, knobs)
        if setting != step.setting:
            step = Step(Purpose.SEARCH, setting)
        return cls(trial, step, history, folder, redraws)

    def report(self, progress: Progress) -> None:
        """Report the time so far, if it is one that grows to the figure; not too often.

        A report that cannot be written is left out: nothing depends on it.
        """
        now_s, step = time.monotonic(), progress.iteration
        if self._spec.objective.clock != "elapsed":
            return
        if now_s < self._next_report_s or step < self._next_step:
            return
        with suppress(OptunaError, SQLAlchemyError):
            self.trial.report(progress.elapsed_s, step)
            self.has_news = True
        took_s = time.monotonic() - now_s
        self._next_report_s = now_s + max(REPORT_EVERY_S, took_s / MOST_SHARE)
        if self.iterations:
            spacing = self.iterations / REPORTS
            self._next_step = (step // spacing + 1) * spacing

    def beat(self) -> None:
        """Say in the database that this host is alive, if hosts share it; not too often."""
        now_s = time.monotonic()
        if now_s >= self._next_beat_s and database.is_shared(self.trial.storage):
            _beat(self.trial)
            self._next_beat_s = now_s + database.HEARTBEAT_S


def _beat(trial: optuna.Trial) -> None:
    assert isinstance(trial.storage, BaseHeartbeat)
    with suppress(OptunaError, SQLAlchemyError):
        trial.storage.record_heartbeat(trial._trial_id)


class PrunerStopper:
    """Stops a launch if the study's pruner prunes its trial: ours, by the race, or another one."""

    def __init__(self, running: RunningTrial, race: EarlyStopper | None) -> None:
        self._running, self._race = running, race

    def __call__(self, log: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Return what the pruner says; one of Optuna's is asked after each report."""
        running, trial = self._running, self._running.trial
        pruner = trial.study.pruner
        if isinstance(pruner, RacePruner):
            if self._race is None:
                return GoOn()
            running.progress = Running(self._race, log, since_launch_s, startup_s)
        elif not running.has_news:
            return GoOn()
        running.has_news = False
        try:
            with guarded("pruner", pruner, running.folder):
                if not yes_or_no(trial.should_prune()):
                    return GoOn()
        except (DBAPIError, StorageInternalError, UpdateFinishedTrialError):
            return GoOn()
        verdict = stopped(trial.storage.get_trial_system_attrs(trial._trial_id))
        if verdict is not None:  # our own pruner has left it there
            return verdict
        bound_s = finish_s = elapsed_bound(log, since_launch_s, startup_s)
        if running.iterations and log and log[-1][0]:
            finish_s = max(bound_s, log[-1][1] * running.iterations / log[-1][0])
        return Stopped(bound_s, finish_s, bound_s, high_s=None, log_sd=_LOG_SD, rule="pruner")

    def in_window(self) -> PrunerStopper:
        """Return the stopper of a window."""
        return PrunerStopper(self._running, self._race and self._race.in_window())
