"""Optuna's study: a projection of our tables, which can be made anew from them at any time.

It is there for Optuna's own tools, the dashboard first; proposals do not read it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import optuna
from optuna.distributions import distribution_to_json
from optuna.exceptions import OptunaError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.model import LaunchRecord
from tuner.model.errors import UsageError
from tuner.store.failures import translated
from tuner.store.urls import display_url
from tuner.study.attach import open_storage
from tuner.study.optuna_trials import LAUNCH, as_trial, distributions, is_told, state_of, value_of

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.study.history import History

#: On our studies, so that another program's study of the same name is left alone; its value
#: is the space that the trials were told in.
OURS = "tuner:space"


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
                "Run optuna storage upgrade, or choose another database with --storage FILE.",
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

    def reconcile(self, plan: History, *, thorough: bool = True) -> tuple[LaunchRecord, ...]:
        """Make Optuna's study say what our tables say.

        Launches that were not told are told; where the space has changed, or what a launch
        came to is judged otherwise now, all is told anew.

        Args:
            plan: The launches of our tables.
            thorough: Read every trial of Optuna's (0.5 s for 2,000); needed only where the
                last run did not come to its end.

        Returns:
            The launches, with the numbers of their trials.

        Raises:
            UsageError: Another program has a study of this name.
        """
        space = _space(plan)
        with translated(self._store.url, OptunaError, opened=True):
            study = self._existing()
            if study is not None and study.user_attrs[OURS] != space:
                optuna.delete_study(study_name=self._name, storage=self._rdb)
                study = None
            if study is None:
                study, thorough = self._create(plan), True
            if not thorough and _agrees(plan):
                return plan.records
            told = _ended(study)
            if _contradicted(plan, told):
                optuna.delete_study(study_name=self._name, storage=self._rdb)
                self._create(plan)
                told = []
            known = {trial.user_attrs.get(LAUNCH): trial.number for trial in told}
            return tuple(self._retold(plan, record, known) for record in plan.records)

    def tell(self, plan: History) -> tuple[LaunchRecord, ...]:
        """Tell of the plan's last launch, which our tables hold.

        Where a commit fails, Optuna makes the trial once more, though the first may be there (a
        network file system, a connection that broke): then all is looked through.

        Returns:
            The launches, with the numbers of their trials.
        """
        before = plan.records[:-1]
        last = self._retold(plan, plan.records[-1], {})
        if last.trial not in {None, sum(record.trial is not None for record in before)}:
            return self.reconcile(plan)
        return (*before, last)

    def _retold(
        self, plan: History, record: LaunchRecord, known: dict[object, int]
    ) -> LaunchRecord:
        number = None
        if is_told(plan, record):
            number = known.get(record.number)
            number = self._add(as_trial(plan, record)) if number is None else number
        if number != record.trial:
            self._store.set_trial(self._name, record.number, number)
        return replace(record, trial=number)

    def _add(self, trial: FrozenTrial) -> int:
        with translated(self._store.url, OptunaError, opened=True):
            key = self._rdb.get_study_id_from_name(self._name)
            return self._rdb.get_trial_number_from_id(self._rdb.create_new_trial(key, trial))

    def _create(self, plan: History) -> optuna.Study:
        maximize = plan.spec.objective.maximize
        towards = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
        study = optuna.create_study(study_name=self._name, storage=self._rdb, direction=towards)
        study.set_user_attr(OURS, _space(plan))
        return study

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
                "Choose another name with --name NAME, or another database with --storage FILE.",
            )
        return study


def _agrees(plan: History) -> bool:
    """True where just the launches that are trials have the number of one."""
    return all((record.trial is not None) == is_told(plan, record) for record in plan.records)


def _contradicted(plan: History, told: Sequence[FrozenTrial]) -> bool:
    """True where Optuna has a launch twice, or as what it is not, or one that is not there."""
    records = {record.number: record for record in plan.records if is_told(plan, record)}
    ours = [
        (launch, trial) for trial in told if isinstance(launch := trial.user_attrs.get(LAUNCH), int)
    ]
    twice = len({launch for launch, _ in ours}) < len(ours)
    return twice or any(
        launch not in records or _differs(plan, records[launch], trial) for launch, trial in ours
    )


def _differs(plan: History, record: LaunchRecord, trial: FrozenTrial) -> bool:
    """True where Optuna has another end of the launch, or another figure: windows are rescaled."""
    if trial.state is not state_of(record):
        return True
    ours, told = value_of(plan, record), trial.value
    if ours is None or told is None:
        return ours is not told
    return not math.isclose(ours, told, rel_tol=1e-6)


def _space(plan: History) -> str:
    space = distributions(plan.knobs)
    texts: dict[str, object] = {name: distribution_to_json(d) for name, d in space.items()}
    conditions = {knob.name: knob.when for knob in plan.knobs if knob.when}
    return json.dumps(texts | ({"{when}": conditions} if conditions else {}))


def _ended(study: optuna.Study) -> list[FrozenTrial]:
    """The study's trials, once those that another program left running are failed."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    return study.get_trials(deepcopy=False)
