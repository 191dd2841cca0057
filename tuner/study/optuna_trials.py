"""Optuna's study: a copy of our tables for Optuna's own tools, the dashboard first.

It can be made anew at any time; no decision reads it.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.exceptions import OptunaError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import DBAPIError, IntegrityError

from tuner.model import Failed, IntRange, Knob, LaunchRecord, Purpose, Stopped, figures
from tuner.model.errors import UsageError
from tuner.stats import estimates
from tuner.store.database import BUSY_S, engine_options
from tuner.store.failures import translated
from tuner.store.urls import display_url
from tuner.study.history import History

if TYPE_CHECKING:
    from tuner.store import Store

#: Another process may be quicker to make Optuna's tables this often.
RACES = 20

#: On each of Optuna's trials: the number of the launch that it tells of.
LAUNCH = "launch"

#: On our studies, so that another program's study of the same name is left alone; its value
#: is the space of the trials.
OURS = "tuner:space"

#: Launches that tell something of a setting; Optuna knows no baseline and no confirmation.
_TOLD = frozenset({*estimates.TRIALS, Purpose.REPEAT})

#: Where Optuna keeps constraints: a positive value is one that does not hold.
_CONSTRAINTS = "constraints"


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage in a database of ours; raises what the store raises."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Optuna fills in "{SCHEMA_VERSION}": braces of the path must not be taken for it.
    escaped = url.replace("{", "{{").replace("}", "}}")
    with translating(url):
        for _ in range(RACES):
            try:
                return RDBStorage(escaped, engine_options(url, BUSY_S))
            except DBAPIError as error:
                # Another first run makes the same tables: it has made one more of them by now.
                if not (isinstance(error, IntegrityError) or "already exists" in str(error.orig)):
                    raise
                time.sleep(0.1)
        return RDBStorage(escaped, engine_options(url, BUSY_S))


def translating(url: str) -> AbstractContextManager[None]:
    """While entered, what Optuna and the database complain about is one error for the user."""
    return translated(url, OptunaError)


def load(storage: RDBStorage, name: str, metric: str) -> optuna.Study | None:
    """The study, its values called ``metric``; ``None`` before its first trial was told."""
    try:
        study = optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return None
    if study.metric_names != [metric]:
        with warnings.catch_warnings():  # the method is marked experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([metric])
    return study


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {
        knob.name: IntDistribution(knob.domain.low, int(knob.domain.high))
        if isinstance(knob.domain, IntRange)
        else CategoricalDistribution(knob.domain.values)
        for knob in knobs
    }


def is_told(history: History, record: LaunchRecord) -> bool:
    """True if the launch tells of a setting in the present space."""
    if record.purpose not in _TOLD or estimates.is_excluded(record):
        return False
    return history.contains(history.pooling.canonical(record.setting))


def as_trial(history: History, record: LaunchRecord) -> FrozenTrial:
    """The launch as Optuna's trial: its figure, in the user's unit.

    Optuna knows no bounds: a stopped launch is pruned, its projection an intermediate value at
    the last iteration that it logged. A failure is a constraint that does not hold.
    """
    ending = record.outcome.ending
    state = TrialState.COMPLETE
    notes: dict[str, Any] = {LAUNCH: record.number, "purpose": record.purpose.value}
    if record.job is not None:
        notes["job"] = record.job
    seen: dict[int, float] = {}
    if isinstance(ending, Failed):
        state = TrialState.FAIL
        notes["failure"] = f"{ending.kind}: {ending.reason}"
    elif isinstance(ending, Stopped):
        state = TrialState.PRUNED
        progress = record.outcome.progress
        last = progress[-1].iteration if progress else 0
        seen[last] = float(f"{ending.projection_s:.6g}")
        notes |= {"bound_s": ending.bound_s, "rule": ending.rule}
    params = history.pooling.canonical(record.setting).as_dict()
    value = figures.figure(history.spec.objective, estimates.estimate_s(record.outcome.samples))
    trial = create_trial(
        state=state,
        value=None if value is None else float(f"{value:.6g}"),  # a clock knows no more digits
        params=params,
        distributions=distributions(tuple(k for k in history.knobs if k.name in params)),
        user_attrs=notes,
        system_attrs={_CONSTRAINTS: (1.0 if state is TrialState.FAIL else 0.0,)},
        intermediate_values=seen,
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial


class Projection:
    """The study of one name in the database of our tables.

    Every method may raise what :func:`tuner.store.failures.translate` makes of an error.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        try:
            self._rdb = open_storage(store.url)
        except RuntimeError as error:  # the tables of another major version
            raise UsageError(
                f"the tables of Optuna in {display_url(store.url)} do not fit Optuna"
                f" {optuna.__version__}: {error}",
                "run optuna storage upgrade, or choose another database with --storage FILE",
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._rdb.remove_session()
        self._rdb.engine.dispose()

    def remove(self) -> None:
        """Remove the study.

        Raises:
            UsageError: Another program has a study of this name.
        """
        with translated(self._store.url, OptunaError, opened=True):
            if self._existing() is not None:
                optuna.delete_study(study_name=self._name, storage=self._rdb)

    def sync(self, history: History) -> tuple[LaunchRecord, ...]:
        """Make Optuna's study say what our tables say; call it whenever that may not be so.

        What is lacking is added. If a trial is there twice, or says anything else (its launch
        does not count any more, the space has changed), the study is made anew.

        Returns:
            The launches, with the numbers of their trials.

        Raises:
            UsageError: Another program has a study of this name.
        """
        wanted = {r.number: as_trial(history, r) for r in history.records if is_told(history, r)}
        space = _space(history)
        with translated(self._store.url, OptunaError, opened=True):
            study = self._existing()
            trials = study.get_trials(deepcopy=False) if study is not None else []
            ours = [trial for trial in trials if LAUNCH in trial.user_attrs]
            numbers = {trial.user_attrs[LAUNCH]: trial.number for trial in ours}
            is_true = len(numbers) == len(ours) and all(
                _is_same(trial, wanted.get(trial.user_attrs[LAUNCH])) for trial in ours
            )
            if study is None or study.user_attrs[OURS] != space or not is_true:
                if study is not None:
                    optuna.delete_study(study_name=self._name, storage=self._rdb)
                maximize = history.spec.objective.maximize
                towards = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
                study = optuna.create_study(
                    study_name=self._name, storage=self._rdb, direction=towards
                )
                study.set_user_attr(OURS, space)
                numbers = {}
            for number, trial in wanted.items():
                if number not in numbers:
                    numbers[number] = self._add(trial)
        return tuple(self._numbered(r, numbers.get(r.number)) for r in history.records)

    def tell(self, history: History) -> tuple[LaunchRecord, ...]:
        """Tell of the history's last launch, which our tables hold.

        If a commit fails, Optuna makes the trial once more, though the first may be there (a
        network file system, a connection that broke): :meth:`sync` at the end mends that.

        Returns:
            The launches, with the numbers of their trials.
        """
        *before, last = history.records
        number = None
        if is_told(history, last):
            with translated(self._store.url, OptunaError, opened=True):
                number = self._add(as_trial(history, last))
        return (*before, self._numbered(last, number))

    def _numbered(self, record: LaunchRecord, trial: int | None) -> LaunchRecord:
        """The launch with the number of its trial, in our tables too."""
        if trial != record.trial:
            self._store.set_trial(self._name, record.number, trial)
        return replace(record, trial=trial)

    def _add(self, trial: FrozenTrial) -> int:
        key = self._rdb.get_study_id_from_name(self._name)
        return self._rdb.get_trial_number_from_id(self._rdb.create_new_trial(key, trial))

    def _existing(self) -> optuna.Study | None:
        study = None
        with suppress(KeyError):
            study = optuna.load_study(study_name=self._name, storage=self._rdb)
        if study is not None and OURS not in study.user_attrs:
            if self._store.has(self._name) and not study.get_trials(deepcopy=False):
                # Begun by a process of ours that was killed before it could mark it.
                optuna.delete_study(study_name=self._name, storage=self._rdb)
                return None
            raise UsageError(
                f"the database {display_url(self._store.url)} holds an Optuna study {self._name}"
                " of another program",
                "choose another name with --name NAME, or another database with --storage FILE",
            )
        return study


def _is_same(told: FrozenTrial, wanted: FrozenTrial | None) -> bool:
    """True if both say the same of a launch."""
    if wanted is None or (told.state, told.params) != (wanted.state, wanted.params):
        return False
    if told.value is None or wanted.value is None:
        return told.value is wanted.value
    return math.isclose(told.value, wanted.value, rel_tol=1e-6)


def _space(history: History) -> str:
    space = distributions(history.knobs)
    texts: dict[str, object] = {name: distribution_to_json(d) for name, d in space.items()}
    conditions = {knob.name: knob.when for knob in history.knobs if knob.when}
    return json.dumps(texts | ({"{when}": conditions} if conditions else {}))
