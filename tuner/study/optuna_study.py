"""The two studies of Optuna that a study is: its search and its comparison.

Each launch is a trial of one of them: it is asked for, reports as it goes on, and is told once it
has ended. What it came to is an attribute of the trial, set before it is told.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    check_distribution_compatibility,
)
from optuna.exceptions import OptunaError, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from tuner.model import LaunchRecord, Purpose, Setting
from tuner.model.errors import TunerError
from tuner.store.rows import LAUNCH, RECORD, launch_attribute, launch_record
from tuner.study import samplers, workers
from tuner.study.asked import Asked
from tuner.study.history import History
from tuner.study.policy import Policy, SearchThenConfirm, Step
from tuner.study.samplers import StudyView, replaced
from tuner.study.trials import (
    SEARCHED,
    SIDE,
    SIDES,
    TAKEN,
    as_trial,
    distributions,
    is_possible,
    is_trial,
    params,
    side,
    trial_result,
    why_not_launched,
)

if TYPE_CHECKING:
    from tuner.store import Store

#: After this many suggestions in a row that are of no use the sampler has nothing new to say.
MOST_REDRAWS = 20

_SIDE: dict[str, BaseDistribution] = {SIDE: CategoricalDistribution(SIDES)}


class OptunaStudy:
    """The two studies of one name in the database of a store.

    Every method may raise what :func:`tuner.store.failures.translate` makes of an error. The
    traceback of a sampler or a pruner goes to the ``folder``.
    """

    def __init__(
        self, store: Store, name: str, policy: Policy | None = None, *, folder: Path = Path()
    ) -> None:
        self._store, self._name, self._folder = store, name, folder
        self._policy = policy or SearchThenConfirm()
        self._history: History | None = None  # what sampler and pruner are shown

    @cached_property
    def _search(self) -> optuna.Study:
        return self._store.search(self._name)

    @cached_property
    def _comparison(self) -> optuna.Study:
        return self._store.comparison(self._name)

    @property
    def is_shared(self) -> bool:
        """Whether other hosts may work on the study too."""
        return workers.is_shared(self._store.storage)

    # --- before the first launch -----------------------------------------------------

    def take_up(self, history: History, missing: Sequence[LaunchRecord] = ()) -> None:
        """Put an end to the trials that a process left running, and give the study its sampler.

        Args:
            history: The study as it goes on, with what is missing; its space may have changed.
            missing: Launches that ended, but that no trial tells of.
        """
        self._history, by_number = history, {r.number: r for r in missing}
        with self._store.translated():
            for study in (self._search, self._comparison):
                for trial in self._trials(study):
                    if trial.state is TrialState.RUNNING and not self._is_elsewhere(trial, history):
                        record = by_number.pop(trial.user_attrs.get(LAUNCH, 0), None)
                        self._end(study, trial, history, record)
            if self._has_other_choices(history):
                self._store.replace_search(self._name, partial(_in_space, history))
                del self._search
            for record in by_number.values():
                self._add(record, history)
            study = self._search
            made = len(study.get_trials(deepcopy=False))
            study.sampler = samplers.sampler(history.spec, made, self._view, self._propose)
            study.pruner = samplers.pruner(history.spec, self._view)

    def _end(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        history: History,
        record: LaunchRecord | None,
    ) -> None:
        """Tell a trial whose process is gone what is known of its launch."""
        if record is not None:
            self._store.keep(trial._trial_id, record)
        elif RECORD in trial.user_attrs:
            record = launch_record(trial.user_attrs[RECORD])
        else:
            self._fail(study, trial.number, trial._trial_id, "lost: its process is gone")
            return
        self._tell(study, trial.number, trial._trial_id, history, record)

    def _add(self, record: LaunchRecord, history: History) -> None:
        """Add a launch that ended, but that no trial tells of."""
        study, chosen = self._comparison, {SIDE: side(history, record.purpose, record.setting)}
        space = _SIDE
        if record.purpose in SEARCHED:
            study, chosen = self._search, params(history, record.setting)
            space = distributions(tuple(k for k in history.knobs if k.name in chosen))
        state, value, notes = trial_result(history, _judged(history, record))
        trial = create_trial(
            state=state,
            value=value,
            params=chosen,
            distributions=space,
            user_attrs={LAUNCH: record.number, RECORD: launch_attribute(record), **notes},
        )
        trial_id = study._storage.create_new_trial(study._study_id, trial)
        self._store.keep_seen(trial_id, record)

    def _has_other_choices(self, history: History) -> bool:
        """Whether a parameter has other choices than trials had: Optuna refuses such a trial."""
        space = distributions(history.knobs)
        for trial in self._search.get_trials(deepcopy=False):
            for name, distribution in trial.distributions.items():
                if name in space:
                    try:
                        check_distribution_compatibility(distribution, space[name])
                    except ValueError:
                        return True
        return False

    # --- a launch --------------------------------------------------------------------

    def ask(self, history: History, step: Step) -> Asked | None:
        """The next trial, with the step that it makes; ``None``: another host measures the same.

        What is no search is enqueued; a search is what the sampler suggests, or what another
        program has enqueued. If that is known already, or ruled out, the trial is told so, and the
        sampler is asked again. If it has nothing new to say, the step's own setting is enqueued.

        Raises:
            TunerError: The sampler failed, or the database.
        """
        self._history = history
        with self._store.translated():
            if step.purpose not in SEARCHED or not is_possible(history, step.purpose, step.setting):
                return self._ask_to_compare(history, step)
            study, redrawn = self._search, 0
            if step.purpose is not Purpose.SEARCH:
                _enqueue(study, step.setting)
            while True:
                asked = self._suggestion(history, step, redrawn)
                if asked is not None:
                    setting, why = asked.step.setting, ""
                    if setting != step.setting:
                        why = why_not_launched(history, setting)
                    if self._is_taken(asked, history):
                        self._redraw(asked, TAKEN)
                        return None
                    if not why:
                        self._number(asked)
                        return asked
                    self._redraw(asked, why)
                redrawn += 1
                if redrawn % MOST_REDRAWS == 0:
                    _enqueue(study, step.setting)

    def _ask_to_compare(self, history: History, step: Step) -> Asked:
        study, chosen = self._comparison, side(history, step.purpose, step.setting)
        running = create_trial(
            state=TrialState.RUNNING,
            params={SIDE: chosen},
            distributions=_SIDE,
            user_attrs={workers.HOST: history.spec.machine.hostname} if self.is_shared else {},
        )
        trial_id = study._storage.create_new_trial(study._study_id, running)
        asked = Asked(optuna.Trial(study, trial_id), step, history, self._folder)
        self._number(asked)
        return asked

    def _suggestion(self, history: History, step: Step, redrawn: int) -> Asked | None:
        """A trial; ``None``: another program has enqueued it, outside of the space."""
        study = self._search
        with samplers.guarded("sampler", study.sampler, self._folder), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Fixed parameter")  # outside: that is said below
            trial = workers.ask(study)
            try:
                return Asked.suggested(trial, step, history, self._folder, redrawn)
            except BaseException as error:
                with suppress(TunerError, OptunaError, SQLAlchemyError):
                    self._fail(
                        study, trial.number, trial._trial_id, f"{type(error).__name__}: {error}"
                    )
                attributes = study._storage.get_trial_system_attrs(trial._trial_id)
                if isinstance(error, ValueError) and "fixed_params" in attributes:
                    return None
                raise

    def _number(self, asked: Asked) -> None:
        """Give the launch a number that no other one has, on whatever host."""
        number = self._store.last_number(self._name) + 1
        while True:
            asked.set_number(number)
            if not self.is_shared or self._store.has_number_first(
                self._name, number, asked.trial_id
            ):
                return
            number += 1

    def _redraw(self, asked: Asked, why: str) -> None:
        study = self._search
        study._storage.set_trial_user_attr(asked.trial_id, "redrawn", why)
        self._tell_study(study, asked.number, TrialState.FAIL)

    def fail(self, asked: Asked, why: str) -> None:
        """Tell a running trial that it has failed, as far as that can be told."""
        study = self._comparison if asked.is_compared else self._search
        with suppress(TunerError, OptunaError, SQLAlchemyError):
            self._fail(study, asked.number, asked.trial_id, why)

    def _fail(self, study: optuna.Study, number: int, trial_id: int, why: str) -> None:
        study._storage.set_trial_user_attr(trial_id, "failure", why)
        self._tell_study(study, number, TrialState.FAIL)

    def tell(self, asked: Asked, record: LaunchRecord, history: History) -> None:
        """Put down what a launch came to; the history has it, as it is judged."""
        self._history = history
        study = self._comparison if asked.is_compared else self._search
        with self._store.translated():
            try:
                self._store.keep(asked.trial_id, record)
            except UpdateFinishedTrialError:  # another host took this one for lost
                self._add(record, history)
                return
            except KeyError as error:
                raise TunerError(
                    f"the study {self._name} was deleted or made anew while a launch of it ran",
                    "run the same command again",
                ) from error
            with suppress(UpdateFinishedTrialError):  # a moment ago: what it came to is kept
                self._tell(study, asked.number, asked.trial_id, history, record)

    def _tell(
        self,
        study: optuna.Study,
        number: int,
        trial_id: int,
        history: History,
        record: LaunchRecord,
    ) -> None:
        state, value, notes = trial_result(history, _judged(history, record))
        for name, note in notes.items():
            study._storage.set_trial_user_attr(trial_id, name, note)
        self._tell_study(study, number, state, value)

    def _tell_study(
        self, study: optuna.Study, number: int, state: TrialState, value: float | None = None
    ) -> None:
        with samplers.guarded("sampler", study.sampler, self._folder):
            study.tell(number, value, state)

    # --- what the trials say ---------------------------------------------------------

    def others(self, history: History) -> History:
        """The history with what other hosts have measured since, and measure at present."""
        if not self.is_shared:
            return history
        with self._store.translated():
            trials = [t for t in self._trials(self._search) if self._is_elsewhere(t, history)]
        records = self._store.launches(self._name, detail=False)
        if len(records) != len(history.records):
            history = history.with_records(records)
        settings = [Setting.of(trial.params) for trial in trials if trial.params]
        canonical = history.pooling.canonical
        return replace(history, pending=tuple(canonical(setting) for setting in settings))

    def _propose(
        self,
        study: optuna.Study,  # noqa: ARG002 (the history is what it says)
    ) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """The setting that our search launches next, and its distributions."""
        history = self._history
        assert history is not None  # it is taken up first
        step, chosen = self._policy.next(history), {}
        if isinstance(step, Step) and step.purpose is Purpose.SEARCH:
            chosen = params(history, step.setting)
        return chosen, distributions(tuple(k for k in history.knobs if k.name in chosen))

    def _view(self, study: optuna.Study) -> StudyView:
        """The search as a sampler or a pruner is shown it, by the history."""
        history = self._history
        assert history is not None  # it is taken up first
        by_trial = {r.trial: r for r in history.records if is_trial(history, r)}
        trials = []
        for trial in study.get_trials(deepcopy=False):
            shown = trial
            if RECORD in trial.user_attrs and trial.state.is_finished():
                record = by_trial.get(trial.number)
                if record is None:  # of another space
                    continue
                shown = replaced(trial, as_trial(history, record))
            trials.append(shown)
        return StudyView(study, trials)

    def _trials(self, study: optuna.Study) -> list[FrozenTrial]:
        """All trials; those of hosts that are lost have failed."""
        if self.is_shared:
            workers.fail_lost(study)
        return study.get_trials(deepcopy=False)

    def _is_elsewhere(self, trial: FrozenTrial, history: History) -> bool:
        return self.is_shared and workers.is_elsewhere(trial, history.spec.machine.hostname)

    def _is_taken(self, asked: Asked, history: History) -> bool:
        """Whether another host asked for the same setting a moment before."""
        if not self.is_shared:
            return False
        canonical, known = history.pooling.canonical, {r.trial for r in history.records}
        wanted = canonical(asked.step.setting)
        if wanted in history.pending:  # that is known, and meant
            return False
        always = {knob.name for knob in history.knobs if not knob.when}
        for _ in range(20):
            earlier = [
                trial
                for trial in self._trials(self._search)
                if trial.number < asked.number
                and trial.number not in known
                and workers.is_of_another(trial, history.spec.machine.hostname)
            ]
            if all(always <= trial.params.keys() for trial in earlier):
                break
            time.sleep(0.05)  # its sampler is at work
        return any(canonical(Setting.of(trial.params)) == wanted for trial in earlier)


def _judged(history: History, record: LaunchRecord) -> LaunchRecord:
    """The launch as the history has it."""
    return next((r for r in reversed(history.records) if r.number == record.number), record)


def _enqueue(study: optuna.Study, setting: Setting) -> None:
    """Enqueue a setting, unless a process that was killed has left it in the queue."""
    values, waiting = setting.as_dict(), study.get_trials(False, (TrialState.WAITING,))
    if not any(trial.system_attrs.get("fixed_params") == values for trial in waiting):
        study.enqueue_trial(values)


def _in_space(history: History, trial: FrozenTrial) -> FrozenTrial:
    """The trial with the parameters that its launch has in the present space."""
    changed, chosen = copy(trial), {}
    if RECORD in trial.user_attrs:
        chosen = params(history, launch_record(trial.user_attrs[RECORD]).setting)
    changed.params = chosen
    changed.distributions = distributions(tuple(k for k in history.knobs if k.name in chosen))
    return changed
