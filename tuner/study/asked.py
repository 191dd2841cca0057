"""A trial that Optuna's study was asked for, while its launch runs."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import optuna
from optuna.distributions import IntDistribution
from optuna.exceptions import OptunaError, StorageInternalError
from optuna.pruners import BasePruner
from optuna.storages._heartbeat import BaseHeartbeat
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tuner.knobs.conditions import parents_first
from tuner.knobs.space import values
from tuner.model import Choice, Knob, Progress, Purpose, Setting, Stopped, Value
from tuner.search.pruner import RacePruner, Running, stopped
from tuner.search.stopper import GoOn, Log, Verdict, by_drift, elapsed_bound
from tuner.store import database
from tuner.store.rows import LAUNCH
from tuner.study.history import History
from tuner.study.plugins import guarded
from tuner.study.policy import Step
from tuner.study.reader import HOST
from tuner.study.trials import distribution

#: The least between two reports, s, and the share of a launch that they may take.
REPORT_EVERY_S, MOST_SHARE = 1.0, 0.01

#: A launch whose length is known reports this often, so that trials have the same steps.
REPORTS = 10

#: What is known of a run's pace before it has shown it, as a relative spread.
_PACE_CV = 0.05


def suggested(trial: optuna.Trial, knobs: tuple[Knob, ...]) -> Setting:
    """The setting that the sampler suggests: a value of each knob that exists in it.

    Raises:
        ValueError: A value is outside of its domain.
    """
    names = {knob.name for knob in knobs}
    chosen: dict[str, Value] = {}
    for knob in parents_first(knobs):
        if any(on in names and chosen.get(on) not in allowed for on, allowed in knob.when):
            continue
        value: Value
        given = distribution(knob.domain)
        if isinstance(given, IntDistribution):
            value = trial.suggest_int(knob.name, given.low, given.high, step=given.step)
        else:
            assert isinstance(knob.domain, Choice)
            value = cast("Value", trial.suggest_categorical(knob.name, knob.domain.values))
        if value not in values(knob.domain):
            raise ValueError(f"it suggests {knob.name}={value!r}, which is outside of the space")
        chosen[knob.name] = value
    return Setting.of(chosen)


class Asked:
    """The trial, with the step that it makes.

    Args:
        trial: What the study gave.
        step: What is launched.
        history: The study so far.
        folder: Where the traceback of a pruner is kept.
        redrawn: How many suggestions before it were known already, or ruled out.
        is_compared: It is a trial of the comparison, not of the search.
    """

    def __init__(
        self,
        trial: optuna.Trial,
        step: Step,
        history: History,
        folder: Path,
        redrawn: int = 0,
        *,
        is_compared: bool = True,
    ) -> None:
        self._trial, self._spec, self._folder = trial, history.spec, folder
        self.history = history
        self.step, self.redrawn, self.is_compared = step, redrawn, is_compared
        self.number, self.trial_id = trial.number, trial._trial_id
        self.launch = 0  # the number of the launch
        self.reported: int | None = None  # the last step, an iteration
        self.running = Running((), 0.0, None)
        self.iterations = history.expected_iterations(step.setting)
        self._beaten_s, self._next_s, self._next_step = -math.inf, 0.0, 0.0

    @classmethod
    def suggested(
        cls, trial: optuna.Trial, step: Step, history: History, folder: Path, redrawn: int
    ) -> Asked:
        """The trial of the search, with the setting that its sampler suggests.

        Raises:
            ValueError: A value is outside of its domain.
        """
        if database.is_shared(trial.storage):  # before its parameters: others look for both
            _beat(trial)
            trial.set_user_attr(HOST, history.spec.machine.hostname)
        knobs, enqueued = history.knobs, step.setting.as_dict()
        if step.purpose.stage.may_leave_knobs_out:  # some knobs are left out
            attributes = trial.storage.get_trial_system_attrs(trial._trial_id)
            chosen = attributes.get("fixed_params", trial.relative_params)
            if chosen.keys() == enqueued.keys():
                knobs = tuple(knob for knob in knobs if knob.name in enqueued)
        setting = suggested(trial, knobs)
        if setting != step.setting:
            step = Step(Purpose.SEARCH, setting)
        return cls(trial, step, history, folder, redrawn, is_compared=False)

    def set_number(self, number: int) -> None:
        """Say on the trial which launch of the study it is."""
        self.launch = number
        self._trial.set_user_attr(LAUNCH, number)

    def report(self, progress: Progress) -> None:
        """Report the time so far; if it grows to the figure, and not too often.

        A report that cannot be written is left out: nothing depends on it.
        """
        now_s, step = time.monotonic(), progress.iteration
        if self._spec.objective.clock != "elapsed":
            return
        if now_s < self._next_s or step < self._next_step:
            return
        with suppress(OptunaError, SQLAlchemyError):
            self._trial.report(progress.elapsed_s, step)
            self.reported = step
        written_s = time.monotonic()
        self._next_s = written_s + max(REPORT_EVERY_S, (written_s - now_s) / MOST_SHARE)
        if self.iterations:
            part = self.iterations / REPORTS
            self._next_step = (step // part + 1) * part

    def beat(self) -> None:
        """Say that the trial's host is alive, if other hosts may ask; not too often."""
        now_s = time.monotonic()
        if now_s >= self._beaten_s and database.is_shared(self._trial.storage):
            _beat(self._trial)
            self._beaten_s = now_s + database.HEARTBEAT_S

    @property
    def pruner(self) -> BasePruner:
        """The study's."""
        return self._trial.study.pruner

    def stopped(self) -> Stopped | None:
        """What the race found of the trial; ``None``: it was another pruner's affair."""
        return stopped(self._trial.storage.get_trial_system_attrs(self.trial_id))

    def should_prune(self) -> bool:
        """What the study's pruner says of the reports."""
        try:
            with guarded("pruner", self.pruner, self._folder):
                return self._trial.should_prune()
        except (DBAPIError, StorageInternalError):
            return False


def _beat(trial: optuna.Trial) -> None:
    assert isinstance(trial.storage, BaseHeartbeat)
    with suppress(OptunaError, SQLAlchemyError):
        trial.storage.record_heartbeat(trial._trial_id)


@dataclass
class PrunerStopper:
    """Stops a launch if its trial is to be pruned.

    Attributes:
        asked: The trial.
    """

    asked: Asked
    _is_window: bool = False
    _judged: int | None = None

    def __call__(self, progress: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Whether the launch is pruned; pruners of Optuna are asked after each report."""
        asked = self.asked
        if isinstance(asked.pruner, RacePruner):
            asked.running = Running(progress, since_launch_s, startup_s, self._is_window)
        elif not progress or asked.reported in (None, self._judged):
            return GoOn()
        self._judged = asked.reported
        if not asked.should_prune():
            return GoOn()
        if (verdict := asked.stopped()) is not None:
            return verdict
        bound_s = elapsed_bound(progress, since_launch_s, startup_s)
        finish_s, log_sd, iterations = bound_s, 0.5, asked.iterations
        if iterations and len(progress) > 1:
            finish_s, log_sd = by_drift(progress, iterations, _PACE_CV)
        elif iterations and progress and progress[-1][0]:
            finish_s = progress[-1][1] * iterations / progress[-1][0]
        return Stopped(bound_s, max(bound_s, finish_s), bound_s, None, log_sd, "pruner")

    def in_window(self) -> PrunerStopper:
        """The same, as it judges a window."""
        return replace(self, _is_window=True)
