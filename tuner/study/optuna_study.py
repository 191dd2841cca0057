"""The two studies of Optuna that a study consists of: its search and its comparison.

Each launch is a trial of one of them. A study is asked for the trial, which reports as it goes on;
it is told once the launch has ended. Before that an attribute of the trial gets the record.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import OptunaError, UpdateFinishedTrialError
from optuna.terminator import BaseTerminator
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from tuner.model import Exclusion, LaunchRecord, Setting, StudySpec
from tuner.model.errors import TunerError
from tuner.search import RacePruner, RuntimeSampler, RuntimeTerminator
from tuner.store import database
from tuner.store.rows import LAUNCH, RECORD, launch_attribute, launch_record
from tuner.study import optuna_plugins
from tuner.study.history import History
from tuner.study.optuna_plugins import ShownStudy
from tuner.study.policy import Policy, Step
from tuner.study.reader import HOST, Reader
from tuner.study.running_trial import RunningTrial
from tuner.study.trials import (
    SIDE,
    SIDES,
    as_trial,
    distributions,
    is_of_search,
    params,
    side,
    trial_result,
    why_not_launched,
)

if TYPE_CHECKING:
    from tuner.store.store import Store

#: After this many suggestions in a row that are of no use the sampler has nothing new to say.
MOST_REDRAWS = 20

_SIDE: dict[str, BaseDistribution] = {SIDE: CategoricalDistribution(SIDES)}


class OptunaStudy:
    """The two studies of one name in the database of a store.

    Every method may raise what :func:`tuner.store.failures.translate` makes of an error. The
    traceback of a sampler, a pruner or a terminator goes to the ``folder``.
    """

    def __init__(
        self,
        store: Store,
        spec: StudySpec,
        policy: Policy,
        *,
        folder: Path = Path(),
        reader: Reader | None = None,
    ) -> None:
        self._store, self._spec, self._name, self._folder = store, spec, spec.name, folder
        self._policy = policy
        self._reader = reader or Reader(spec, policy)
        self._running: RunningTrial | None = None
        self._terminator: BaseTerminator | None = None
        self._is_terminated = False

    @cached_property
    def _search(self) -> optuna.Study:
        return self._store.search(self._name)

    @cached_property
    def _shown_search(self) -> optuna.Study:
        """The search as samplers, pruners and terminators see it, by the history."""
        return ShownStudy(self._search, self._shown_trials)

    @cached_property
    def _comparison(self) -> optuna.Study:
        return self._store.comparison(self._name)

    @property
    def _is_shared(self) -> bool:
        """Whether several hosts may work on the study."""
        return database.is_shared(self._store.storage)

    def history(self) -> History:
        """Read the study from its trials, once those of lost hosts have failed."""
        with self._store.translated():
            self._fail_lost(self._search)
            return self._reader.history(self._search)

    def is_terminated(self) -> bool:
        """Return whether the terminator ends the search.

        Ours does so where the sampler has nothing to suggest. A search that another terminator has
        ended stays ended.
        """
        if self._is_terminated:
            return True
        terminator = self._terminator
        assert terminator is not None  # `take_up` comes first
        guard = optuna_plugins.guarded("terminator", terminator, self._folder)
        with self._store.translated(), guard:
            is_terminated = optuna_plugins.yes_or_no(
                terminator.should_terminate(self._shown_search)
            )
        self._is_terminated = is_terminated and not isinstance(terminator, RuntimeTerminator)
        return is_terminated

    # --- before the first launch -----------------------------------------------------

    def take_up(self, history: History, missing: Sequence[LaunchRecord] = ()) -> None:
        """Put an end to the trials that a process left running, and give the study its sampler.

        The space of the history may have changed since. The history has the ``missing`` launches,
        which ended, but whose record no trial has.
        """
        by_number = {r.number: r for r in missing}
        with self._store.translated():
            for study in (self._search, self._comparison):
                self._fail_lost(study)
                for trial in study.get_trials(deepcopy=False):
                    if trial.state is TrialState.RUNNING and not self._is_elsewhere(trial):
                        self._end(optuna.Trial(study, trial._trial_id), history, by_number)
            space = distributions(history.knobs)
            if any(
                space.get(name, distribution) != distribution
                for trial in self._search.get_trials(deepcopy=False)
                for name, distribution in trial.distributions.items()
            ):  # Optuna refuses a trial with other choices than before
                self._store.replace_params(self._name, partial(_in_space, history))
                del self._search
            for record in by_number.values():
                self._add(record, history)
            study = self._shown_search
            race = RacePruner(running=lambda *_: self._running.progress if self._running else None)
            own_sampler = RuntimeSampler(read=self._reader, seed=history.spec.seed)
            trials = len(self._search.get_trials(deepcopy=False))
            study.sampler = optuna_plugins.sampler(history.spec, trials) or own_sampler
            study.pruner = optuna_plugins.pruner(history.spec) or race
            # Another pruner does not judge the comparison: the verdict needs what launches cost.
            stops_nothing = history.spec.pruner == "none"
            self._comparison.pruner = optuna.pruners.NopPruner() if stops_nothing else race
            terminator = optuna_plugins.terminator(history.spec)
            self._terminator = terminator or RuntimeTerminator(own_sampler)
            self._reader.changed()
            self._reader.is_alone = not self._is_shared

    def _end(
        self, trial: optuna.Trial, history: History, by_number: dict[int, LaunchRecord]
    ) -> None:
        """Tell a trial whose process is gone what its launch came to, or that it was lost."""
        record = by_number.pop(trial.user_attrs.get(LAUNCH, 0), None)
        if record is not None:
            self._store.keep(trial._trial_id, record)
        elif RECORD in trial.user_attrs:
            record = launch_record(trial.user_attrs[RECORD])
        else:
            self.fail(trial, "lost: its process is gone")
            return
        self._tell(trial, history, record)

    def _add(self, record: LaunchRecord, history: History) -> None:
        """Add a trial for a launch that ended, but whose record no trial has."""
        study, values = self._comparison, {SIDE: side(history, record.purpose, record.setting)}
        space = _SIDE
        if is_of_search(history, record.purpose, record.setting):
            study, values = self._search, params(history, record.setting)
            space = distributions(tuple(k for k in history.knobs if k.name in values))
        state, value, attributes = trial_result(history, _as_judged(history, record))
        trial = create_trial(
            state=state,
            value=value,
            params=values,
            distributions=space,
            user_attrs={LAUNCH: record.number, RECORD: launch_attribute(record), **attributes},
        )
        trial_id = study._storage.create_new_trial(study._study_id, trial)
        self._store.keep_observation(trial_id, record)
        self._reader.changed()

    # --- a launch --------------------------------------------------------------------

    def ask(self, history: History, step: Step) -> RunningTrial | None:
        """Return the next trial, with its step; ``None`` if another host measures the same.

        For the comparison no sampler is asked. A trial of the search has the setting that the
        sampler suggests, or that another program has enqueued. If that was measured already, or is
        ruled out, its trial fails, and the sampler is asked again. What it does not suggest by
        itself is enqueued: a repeat, if it is a sampler of Optuna; and the step's own setting,
        after `MOST_REDRAWS` such trials.
        """
        with self._store.translated():
            if not is_of_search(history, step.purpose, step.setting):
                return self._ask_to_compare(history, step)
            is_suggested = step.purpose.stage.is_sampled
            if isinstance(self._shown_search.sampler, RuntimeSampler):
                is_suggested = self._policy.search(history) == step
            if not is_suggested:
                _enqueue(self._search, step.setting)
            redraws = 0
            while True:
                running = self._suggestion(history, step, redraws)
                if running is not None:
                    setting = running.step.setting
                    why = "" if setting == step.setting else why_not_launched(history, setting)
                    is_taken = self._is_taken(running, history)
                    if not why and not is_taken:
                        return self._numbered(running, history)
                    running.trial.set_user_attr("redrawn", why or "another host measures the same")
                    self._tell_study(running.trial, TrialState.FAIL)
                    if is_taken:
                        return None
                redraws += 1
                if redraws % MOST_REDRAWS == 0:
                    _enqueue(self._search, step.setting)

    def _is_taken(self, running: RunningTrial, history: History) -> bool:
        """Return whether another host has asked for the same setting since the history was read."""
        canonical = history.pooling.canonical
        setting = canonical(running.step.setting)
        if not self._is_shared or setting in history.pending:  # the step knows what is pending
            return False
        in_history = {record.trial for record in history.records}
        unconditional = {knob.name for knob in history.knobs if not knob.when}
        for _ in range(20):  # a second at most
            new_trials = [
                trial
                for trial in self._search.get_trials(deepcopy=False)[: running.trial.number]
                if trial.number not in in_history and self._is_of_another(trial)
            ]
            if all(unconditional <= trial.params.keys() for trial in new_trials):
                break
            time.sleep(0.05)  # the sampler of that host is at work
        return any(canonical(Setting.of(trial.params)) == setting for trial in new_trials)

    def _is_of_another(self, trial: FrozenTrial) -> bool:
        """Return whether another host than this runs a trial, or has measured it."""
        if trial.state is TrialState.RUNNING:
            return self._is_elsewhere(trial)
        local_host = self._spec.machine.hostname
        return RECORD in trial.user_attrs and trial.user_attrs.get(HOST, local_host) != local_host

    def _ask_to_compare(self, history: History, step: Step) -> RunningTrial:
        study = self._comparison
        template = create_trial(
            state=TrialState.RUNNING,
            params={SIDE: side(history, step.purpose, step.setting)},
            distributions=_SIDE,
            user_attrs={HOST: history.spec.machine.hostname} if self._is_shared else {},
        )
        trial_id = study._storage.create_new_trial(study._study_id, template)
        trial = optuna.Trial(study, trial_id)
        return self._numbered(RunningTrial(trial, step, history, self._folder), history)

    def _suggestion(self, history: History, step: Step, redraws: int) -> RunningTrial | None:
        """Return the next trial; ``None``: another program enqueued a setting outside the space."""
        study = self._shown_search
        guard = optuna_plugins.guarded("sampler", study.sampler, self._folder)
        with guard, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Fixed parameter")  # outside the space: fails below
            warnings.filterwarnings("ignore", "Heartbeat of storage")  # `RunningTrial` sends it
            trial = study.ask()
            try:
                return RunningTrial.suggested(trial, step, history, self._folder, redraws)
            except BaseException as error:
                self.fail(trial, f"{type(error).__name__}: {error}")
                attributes = study._storage.get_trial_system_attrs(trial._trial_id)
                if isinstance(error, ValueError) and "fixed_params" in attributes:
                    return None
                raise

    def _numbered(self, running: RunningTrial, history: History) -> RunningTrial:
        """Give the launch a number that no other one has, on whatever host; return the trial."""
        last_number = max((record.number for record in history.records), default=0)
        number = 1 + max(last_number, self._store.last_number(self._name))
        trial_id = running.trial._trial_id
        while True:
            running.launch = number
            running.trial.set_user_attr(LAUNCH, number)
            if not self._is_shared or self._store.has_number_first(self._name, number, trial_id):
                self._running = running
                return running
            number += 1

    def fail(self, trial: optuna.Trial, why: str) -> None:
        """Have a running trial fail for this reason, if the database can be written."""
        with suppress(TunerError, OptunaError, SQLAlchemyError):
            trial.set_user_attr("failure", why)
            self._tell_study(trial, TrialState.FAIL)

    def tell(self, running: RunningTrial, record: LaunchRecord) -> History:
        """Store what a launch came to, and return the history with it."""
        trial = running.trial
        with self._store.translated():
            try:
                self._store.keep(trial._trial_id, record)
            except UpdateFinishedTrialError:  # another host took this one for lost
                self._add(record, self._reader.history(self._search).add(record))
                return self._reader.history(self._search)
            except KeyError as error:
                raise TunerError(
                    f"the study {self._name} was deleted or made anew while a launch of it ran",
                    "run the same command again",
                ) from error
            # There may be thousands of launches: the telemetry is for the database alone.
            light = replace(record, outcome=replace(record.outcome, telemetry=None))
            self._reader.remember(trial._trial_id, light)
            history = self._reader.history(self._search)
            with suppress(UpdateFinishedTrialError):  # another host failed it now: it has a record
                self._tell(trial, history, record)
            return history

    def exclude(self, numbers: Collection[int], why: Exclusion) -> History:
        """Exclude these launches, and return the history in which they do not count."""
        self._store.exclude(self._name, why, numbers)
        self._reader.changed()
        return self.history()

    def _tell(self, trial: optuna.Trial, history: History, record: LaunchRecord) -> None:
        state, value, attributes = trial_result(history, _as_judged(history, record))
        for name, text in attributes.items():
            trial.set_user_attr(name, text)
        self._tell_study(trial, state, value)

    def _tell_study(
        self, trial: optuna.Trial, state: TrialState, value: float | None = None
    ) -> None:
        study = trial.study
        with optuna_plugins.guarded("sampler", study.sampler, self._folder):
            study.tell(trial.number, value, state)

    # --- what the trials say ---------------------------------------------------------

    def _shown_trials(self) -> list[FrozenTrial]:
        """Return the trials of the search as the history judges them; none of another space."""
        history = self._reader.history(self._search)
        by_trial = {
            record.trial: record
            for record in history.records
            if is_of_search(history, record.purpose, record.setting)
        }
        trials = []
        for trial in self._search.get_trials(deepcopy=False):
            judged = trial
            if RECORD in trial.user_attrs and trial.state.is_finished():
                record = by_trial.get(trial.number)
                if record is None:  # its setting is of another space
                    continue
                judged = as_trial(history, record)
                judged.number, judged._trial_id = trial.number, trial._trial_id
                judged.system_attrs = trial.system_attrs
                judged.intermediate_values = trial.intermediate_values | judged.intermediate_values
                # Optuna's GPSampler ignores pruned trials, and most launches are pruned.
                if self._spec.sampler == "gp" and judged.state is TrialState.PRUNED:
                    judged.state = TrialState.COMPLETE
            trials.append(judged)
        return trials

    def _fail_lost(self, study: optuna.Study) -> None:
        """Have the running trials of lost hosts fail."""
        if self._is_shared:
            with warnings.catch_warnings():  # marked experimental
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                optuna.storages.fail_stale_trials(study)

    def _is_elsewhere(self, trial: FrozenTrial) -> bool:
        """Return whether a running trial is run by another host than this."""
        if not self._is_shared:
            return False
        if HOST in trial.user_attrs:
            return bool(trial.user_attrs[HOST] != self._spec.machine.hostname)
        # A host puts its name on a trial right after this began; one without stays nobody's.
        started = trial.datetime_start
        age_s = 0.0 if started is None else (datetime.now() - started).total_seconds()
        return age_s < database.LOST_AFTER_S


def _as_judged(history: History, record: LaunchRecord) -> LaunchRecord:
    """Return the launch as the history has it, or as it is if the history lacks it."""
    return next((r for r in reversed(history.records) if r.number == record.number), record)


def _enqueue(study: optuna.Study, setting: Setting) -> None:
    """Enqueue a setting, unless a process that was killed has left it in the queue."""
    values = setting.as_dict()
    waiting = study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
    if not any(trial.system_attrs.get("fixed_params") == values for trial in waiting):
        study.enqueue_trial(values)


def _in_space(history: History, trial: FrozenTrial) -> dict[str, tuple[Any, BaseDistribution]]:
    """Return the parameters of a trial in the present space: its launch's setting, or none."""
    if RECORD not in trial.user_attrs:
        return {}
    values = params(history, launch_record(trial.user_attrs[RECORD]).setting)
    space = distributions(history.knobs)
    return {name: (value, space[name]) for name, value in values.items()}
