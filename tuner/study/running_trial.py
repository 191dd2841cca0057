"""A running trial is one that Optuna's study has been asked for, and whose launch has not ended."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
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
from tuner.search.stopper import EarlyStopper, GoOn, Log, Verdict, by_drift, elapsed_bound
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
    """Return the setting that the sampler suggests: a value of each knob that exists in it.

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


class RunningTrial:
    """A trial, with the step that it makes.

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
        self.trial, self._spec, self._folder = trial, history.spec, folder
        self.step, self.redrawn, self.is_compared = step, redrawn, is_compared
        self.launch = 0  # the number of the launch
        self.has_news = False  # something was reported that no pruner has judged
        self.progress: Running | None = None  # what our own pruner judges
        self.iterations = history.expected_iterations(step.setting)
        self._beaten_s, self._next_s, self._next_step = -math.inf, 0.0, 0.0

    @classmethod
    def suggested(
        cls, trial: optuna.Trial, step: Step, history: History, folder: Path, redrawn: int
    ) -> RunningTrial:
        """Return the trial of the search, with the setting that its sampler suggests.

        Raises:
            ValueError: A value is outside of its domain.
        """
        if database.is_shared(trial.storage):  # before its parameters: others look for both
            _beat(trial)
            trial.set_user_attr(HOST, history.spec.machine.hostname)
        knobs, enqueued = history.knobs, step.setting.as_dict()
        if step.purpose.stage.may_leave_knobs_out:
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
        self.trial.set_user_attr(LAUNCH, number)

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
            self.trial.report(progress.elapsed_s, step)
            self.has_news = True
        written_s = time.monotonic()
        self._next_s = written_s + max(REPORT_EVERY_S, (written_s - now_s) / MOST_SHARE)
        if self.iterations:
            part = self.iterations / REPORTS
            self._next_step = (step // part + 1) * part

    def beat(self) -> None:
        """Say that the trial's host is alive, if other hosts may ask; not too often."""
        now_s = time.monotonic()
        if now_s >= self._beaten_s and database.is_shared(self.trial.storage):
            _beat(self.trial)
            self._beaten_s = now_s + database.HEARTBEAT_S

    def verdict(self, log: Log, since_launch_s: float, startup_s: float | None) -> Verdict:
        """Return what the study's pruner says of the launch so far."""
        try:
            with guarded("pruner", self.trial.study.pruner, self._folder):
                if not self.trial.should_prune():
                    return GoOn()
        except (DBAPIError, StorageInternalError, UpdateFinishedTrialError):
            return GoOn()
        by_race = stopped(self.trial.storage.get_trial_system_attrs(self.trial._trial_id))
        return by_race or self._projected(log, elapsed_bound(log, since_launch_s, startup_s))

    def _projected(self, log: Log, bound_s: float) -> Stopped:
        """Return what a launch was heading for that another pruner than ours has stopped."""
        finish_s, log_sd, iterations = bound_s, 0.5, self.iterations
        if iterations and len(log) > 1:
            finish_s, log_sd = by_drift(log, iterations, _PACE_CV)
        elif iterations and log and log[-1][0]:
            finish_s = log[-1][1] * iterations / log[-1][0]
        return Stopped(bound_s, max(bound_s, finish_s), bound_s, None, log_sd, "pruner")

    @property
    def is_raced(self) -> bool:
        """Return whether our own pruner judges the trial."""
        return isinstance(self.trial.study.pruner, RacePruner)


def _beat(trial: optuna.Trial) -> None:
    assert isinstance(trial.storage, BaseHeartbeat)
    with suppress(OptunaError, SQLAlchemyError):
        trial.storage.record_heartbeat(trial._trial_id)


@dataclass(frozen=True)
class PrunerStopper:
    """Stops a launch if its trial is to be pruned.

    Attributes:
        trial: The trial of the launch.
        race: What our own pruner holds the launch against; ``None``: it runs to its end.
    """

    trial: RunningTrial
    race: EarlyStopper | None

    def __call__(self, log: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Return what the pruner says; one of Optuna's is asked after each report."""
        trial = self.trial
        if trial.is_raced:
            if self.race is None:
                return GoOn()
            trial.progress = Running(self.race, log, since_launch_s, startup_s)
        elif not trial.has_news:
            return GoOn()
        trial.has_news = False
        return trial.verdict(log, since_launch_s, startup_s)

    def in_window(self) -> PrunerStopper:
        """Return the same, as it judges a window."""
        return replace(self, race=None if self.race is None else self.race.in_window())
