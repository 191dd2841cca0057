"""Optuna's study, on which the search runs, in the database of our tables.

Each launch of the search is a trial: it is asked for, reports as it goes on, and is told once our
tables have what it came to. These are the truth: if the study says anything else, it is made anew
from them.
"""

from __future__ import annotations

import time
import warnings
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.exceptions import OptunaError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from tuner.model import (
    LaunchRecord,
    Purpose,
    Setting,
    StudySpec,
    figures,
)
from tuner.model.errors import TunerError, UsageError
from tuner.store.database import BUSY_S, engine_options
from tuner.store.failures import translated
from tuner.store.urls import display_url
from tuner.study import samplers, workers
from tuner.study.asked import Asked
from tuner.study.history import History
from tuner.study.policy import Step
from tuner.study.trials import (
    LAUNCH,
    as_trial,
    failed,
    instead_of_a_launch,
    is_same,
    is_trial,
    space_text,
    taken,
)

if TYPE_CHECKING:
    from tuner.store import Store

#: Another process may be quicker to make Optuna's tables this often.
RACES = 20

#: On our studies, so that another program's study of the same name is left alone; its value
#: is the space of the trials.
OURS = "tuner:space"

#: After this many suggestions in a row that are of no use the sampler has nothing new to say.
MOST_REDRAWS = 20


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage in a database of ours; raises what the store raises."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Optuna fills in "{SCHEMA_VERSION}": braces of the path must not be taken for it.
    escaped = url.replace("{", "{{").replace("}", "}}")
    with translating(url):
        for _ in range(RACES):
            try:
                return _storage(escaped, url)
            except DBAPIError as error:
                # Another first run makes the same tables: it has made one more of them by now.
                if not (isinstance(error, IntegrityError) or "already exists" in str(error.orig)):
                    raise
                time.sleep(0.1)
        return _storage(escaped, url)


def _storage(escaped: str, url: str) -> RDBStorage:
    with warnings.catch_warnings():  # heartbeats are marked experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(escaped, engine_options(url, BUSY_S), **workers.heartbeats(url))


def translating(url: str) -> AbstractContextManager[None]:
    """While entered, what Optuna and the database complain about is one error for the user."""
    return translated(url, OptunaError)


def load(storage: RDBStorage, name: str, metric: str) -> optuna.Study | None:
    """The study, its values called ``metric``; ``None`` before its first trial was told."""
    try:
        study = optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return None
    _name_values(study, metric)
    return study


def _name_values(study: optuna.Study, metric: str) -> None:
    if study.metric_names != [metric]:
        with warnings.catch_warnings():  # the method is marked experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([metric])


def _enqueue(study: optuna.Study, setting: Setting) -> None:
    """Enqueue a setting, unless a process that was killed has left it in the queue."""
    params, waiting = setting.as_dict(), study.get_trials(False, (TrialState.WAITING,))
    if not any(trial.system_attrs.get("fixed_params") == params for trial in waiting):
        study.enqueue_trial(params)


class OptunaStudy:
    """The study of one name in the database of our tables, or in another storage.

    One that was ``joined`` belongs to another host: it is never made anew here. The traceback of a
    sampler or a pruner goes to the ``folder``.

    Every method may raise what :func:`tuner.store.failures.translate` makes of an error.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        storage: BaseStorage | None = None,
        *,
        folder: Path = Path(),
        joined: bool = False,
    ) -> None:
        self._store, self._name, self._folder, self._joined = store, name, folder, joined
        self._study: optuna.Study | None = None  # with sampler and pruner
        try:
            self._storage = storage or open_storage(store.url)
        except RuntimeError as error:  # the tables of another major version
            raise UsageError(
                f"the tables of Optuna in {display_url(store.url)} do not fit Optuna"
                f" {optuna.__version__}: {error}",
                "run optuna storage upgrade, or choose another database with --storage FILE",
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._storage.remove_session()
        if isinstance(self._storage, RDBStorage):
            self._storage.engine.dispose()

    def remove(self) -> None:
        """Remove the study.

        Raises:
            UsageError: Another program has a study of this name.
        """
        with self._translated():
            if self._existing() is not None:
                optuna.delete_study(study_name=self._name, storage=self._storage)

    def sync(self, history: History) -> tuple[LaunchRecord, ...]:
        """Make Optuna's study say what our tables say; call it whenever that may not be so.

        A trial that was left running is told what its launch came to, or that it is lost. What
        is lacking is added. If a trial is there twice, or says anything else (its launch does not
        count any more, the space has changed), the study is made anew; but not while another host
        runs a trial of it.

        Returns:
            The launches, with the numbers of their trials.

        Raises:
            UsageError: Another program has a study of this name.
        """
        wanted = {r.number: as_trial(history, r) for r in history.records if is_trial(history, r)}
        by_trial = {r.trial: wanted[r.number] for r in history.records if r.number in wanted}
        space = space_text(history)
        with self._translated():
            study = self._existing()
            begun = [] if study is None else self._trials(study)
            elsewhere = {t.number for t in begun if self._is_elsewhere(t, history)}
            for trial in begun:
                if trial.state is TrialState.RUNNING and trial.number not in elsewhere:
                    known = by_trial.get(trial.number)
                    if known is None or known.params != trial.params:
                        known = failed("failure", "lost: its process is gone")
                    self._finish(study, trial.number, known)
            trials = [] if study is None else study.get_trials(deepcopy=False)
            told = [trial for trial in trials if LAUNCH in trial.user_attrs]
            ours = [trial for trial in told if not self._is_news(trial, history)]
            numbers = {trial.user_attrs[LAUNCH]: trial.number for trial in ours}
            is_true = len(numbers) == len(ours) and all(
                is_same(trial, wanted.get(trial.user_attrs[LAUNCH])) for trial in ours
            )
            is_true = is_true and study is not None and study.user_attrs.get(OURS) == space
            if study is None or not (is_true or elsewhere or self._joined):
                if study is not None:
                    optuna.delete_study(study_name=self._name, storage=self._storage)
                maximize = history.spec.objective.maximize
                towards = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
                study = optuna.create_study(
                    study_name=self._name, storage=self._storage, direction=towards
                )
                study.set_user_attr(OURS, space)
                _name_values(study, figures.axis(history.spec.objective))
                numbers = {}
                for trial in told:
                    if (now := wanted.get(trial.user_attrs[LAUNCH])) is not None:
                        now.intermediate_values = (
                            trial.intermediate_values | now.intermediate_values
                        )
            # Their hosts are about to tell of these.
            numbers |= {r.number: r.trial for r in history.records if r.trial in elsewhere}
            for number, trial in wanted.items():
                if number not in numbers:
                    numbers[number] = self._add(trial)
            self._equip(study, history.spec)
        return tuple(self._numbered(r, numbers.get(r.number)) for r in history.records)

    def ask(self, history: History, step: Step) -> Asked:
        """The next trial, with the step that it makes.

        A guess and a repeat are enqueued; a search is what the sampler suggests, or what another
        program has enqueued. If that is known already, or ruled out, the trial is told so, and the
        sampler is asked again. If it has nothing new to say, the step's own setting is enqueued.

        Raises:
            TakenError: Another host has just begun to measure that.
            TunerError: The sampler failed, or the database.
        """
        study, redrawn = self._study, 0
        assert study is not None  # it is synchronised first
        is_ours = step.purpose is not Purpose.SEARCH
        if isinstance(study.sampler, samplers.SearchSampler):
            study.sampler.proposed = step.setting
        with self._translated():
            if is_ours:
                _enqueue(study, step.setting)
            while True:
                asked, known = self._suggestion(study, history, step, redrawn)
                if asked is not None:
                    is_taken = self._is_taken(study, asked, history)
                    if known is None and not is_taken:
                        return asked
                    self._finish(study, asked.number, known or taken())
                    if is_taken and asked.step.setting == step.setting:
                        raise workers.TakenError
                redrawn += 1
                if redrawn % MOST_REDRAWS == 0:  # another host may have taken what was enqueued
                    _enqueue(study, step.setting)

    def _suggestion(
        self, study: optuna.Study, history: History, step: Step, redrawn: int
    ) -> tuple[Asked | None, FrozenTrial | None]:
        """A trial, and what it is to be told if its setting is not worth a launch.

        ``None``: another program has enqueued it, with a setting outside of the space.
        """
        with samplers.guarded("sampler", study.sampler, self._folder), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Fixed parameter")  # outside: that is said below
            trial = workers.ask(study)
            try:
                asked = Asked(trial, step, history, self._folder, redrawn)
            except BaseException as error:
                self.fail(trial.number, f"{type(error).__name__}: {error}")
                attributes = self._storage.get_trial_system_attrs(trial._trial_id)
                if isinstance(error, ValueError) and "fixed_params" in attributes:
                    return None, None
                raise
        if asked.step.setting == step.setting:
            return asked, None
        return asked, instead_of_a_launch(history, asked.step.setting)

    def fail(self, number: int, why: str) -> None:
        """Tell a running trial that it has failed, as far as that can be told."""
        with suppress(TunerError, OptunaError, SQLAlchemyError):
            self._finish(self._study, number, failed("failure", why))

    def tell(self, history: History) -> tuple[LaunchRecord, ...]:
        """Tell of the history's last launch, which our tables hold.

        Returns:
            The launches, with the numbers of their trials.
        """
        *before, last = history.records
        number = last.trial
        if is_trial(history, last):
            with self._translated():
                if number is None:
                    number = self._add(as_trial(history, last))
                else:
                    try:
                        self._finish(self._study, number, as_trial(history, last))
                    except (KeyError, UpdateFinishedTrialError):
                        # Another host took this one for lost, or made the study anew.
                        number = self._add(as_trial(history, last))
        return (*before, self._numbered(last, number))

    def pending(self, history: History) -> tuple[Setting, ...]:
        """The settings that other hosts measure at present."""
        study = self._study
        assert study is not None  # it is synchronised first
        with self._translated():
            try:
                number = self._storage.get_study_id_from_name(self._name)
            except KeyError as error:
                raise TunerError(
                    f"the host that began the study {self._name} makes its trials anew",
                    "run the same command again: what was measured is kept",
                ) from error
            if number != study._study_id:
                study = optuna.load_study(study_name=self._name, storage=self._storage)
                self._equip(study, history.spec)  # its own host has made it anew
            trials = [t for t in self._trials(study) if self._is_elsewhere(t, history)]
        settings = [Setting.of(trial.params) for trial in trials if trial.params]
        return tuple(history.pooling.canonical(setting) for setting in settings)

    @property
    def is_shared(self) -> bool:
        """Whether other hosts may work on the study too."""
        return workers.is_shared(self._storage)

    def _trials(self, study: optuna.Study) -> list[FrozenTrial]:
        """All trials; those of hosts that are lost have failed."""
        if self.is_shared:
            workers.fail_lost(study)
        return study.get_trials(deepcopy=False)

    def _is_elsewhere(self, trial: FrozenTrial, history: History) -> bool:
        return self.is_shared and workers.is_elsewhere(trial, history.spec.machine.hostname)

    def _is_news(self, trial: FrozenTrial, history: History) -> bool:
        """Whether it tells of a launch on another host that the history does not have yet."""
        here, number = history.spec.machine.hostname, trial.user_attrs.get(LAUNCH)
        if number is None or not self.is_shared or trial.user_attrs.get(workers.HOST, here) == here:
            return False
        return not any(record.number == number for record in history.records)

    def _is_taken(self, study: optuna.Study, asked: Asked, history: History) -> bool:
        """Whether another host asked for the same setting a moment before."""
        canonical = history.pooling.canonical
        wanted = canonical(asked.step.setting)
        if not self.is_shared or wanted in history.pending:  # then it is known, and meant
            return False
        always = {knob.name for knob in history.knobs if not knob.when}
        for _ in range(20):
            earlier = [
                trial
                for trial in self._trials(study)
                if trial.number < asked.number
                and (self._is_elsewhere(trial, history) or self._is_news(trial, history))
            ]
            if all(always <= trial.params.keys() for trial in earlier):
                break
            time.sleep(0.05)  # its sampler is at work
        return any(canonical(Setting.of(trial.params)) == wanted for trial in earlier)

    def _finish(self, study: optuna.Study | None, number: int, wanted: FrozenTrial) -> None:
        """Tell a running trial what it came to; again after a crash in between."""
        assert study is not None
        key = self._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
        for step, value in wanted.intermediate_values.items():
            self._storage.set_trial_intermediate_value(key, step, value)
        for name, text in wanted.user_attrs.items():
            self._storage.set_trial_user_attr(key, name, text)
        values = wanted.value if wanted.state is TrialState.COMPLETE else None
        with samplers.guarded("sampler", study.sampler, self._folder):
            study.tell(number, values, wanted.state)

    def _equip(self, study: optuna.Study, spec: StudySpec) -> None:
        """Give the study its sampler, which a study made anew keeps, and its pruner."""
        if self._study is None:
            study.sampler = samplers.sampler(spec, len(study.get_trials(deepcopy=False)))
            study.pruner = samplers.pruner(spec)
        else:
            study.sampler, study.pruner = self._study.sampler, self._study.pruner
        # What a grid does at its end; it is for the search to say when it is over.
        study.stop = lambda: None  # type: ignore[method-assign]
        self._study = study

    def _numbered(self, record: LaunchRecord, trial: int | None) -> LaunchRecord:
        """The launch with the number of its trial, in our tables too."""
        if trial != record.trial:
            self._store.set_trial(self._name, record.number, trial)
        return replace(record, trial=trial)

    def _add(self, trial: FrozenTrial) -> int:
        key = self._storage.get_study_id_from_name(self._name)
        return self._storage.get_trial_number_from_id(self._storage.create_new_trial(key, trial))

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._store.url, OptunaError, opened=True)

    def _existing(self) -> optuna.Study | None:
        study = None
        with suppress(KeyError):
            study = optuna.load_study(study_name=self._name, storage=self._storage)
        # One that was joined is ours; its host may be about to mark it.
        if study is not None and not self._joined and OURS not in study.user_attrs:
            if self._store.has(self._name) and not study.get_trials(deepcopy=False):
                # Begun by a process of ours that was killed before it could mark it.
                optuna.delete_study(study_name=self._name, storage=self._storage)
                return None
            raise UsageError(
                f"the database {display_url(self._store.url)} holds an Optuna study {self._name}"
                " of another program",
                "choose another name with --name NAME, or another database with --storage FILE",
            )
        return study
