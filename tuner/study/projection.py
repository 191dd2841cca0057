"""Optuna's study: a projection of our tables, which can be made anew from them at any time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.exceptions import OptunaError
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner import stats
from tuner.errors import UsageError
from tuner.model import Failed, LaunchRecord
from tuner.store.failures import translated
from tuner.store.urls import display_url
from tuner.study.attach import open_storage
from tuner.study.sampler import GivenSampler, distributions

if TYPE_CHECKING:
    from tuner.store.store import Store
    from tuner.study.plan import Plan

#: On our studies, so that another program's study of the same name is left alone; its value
#: is the space that the trials were told in.
OURS = "tuner:space"
#: On each trial: the number of the launch that it tells of.
LAUNCH = "launch"


class Projection:
    """The study of one name in the database of our tables.

    Every method may raise what :func:`tuner.store.failures.translate` makes of an error.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        try:
            self._rdb = open_storage(url)
        except RuntimeError as error:  # the tables of another major version
            raise UsageError(
                f"the tables of Optuna in {display_url(url)} do not fit Optuna"
                f" {optuna.__version__}: {error}",
                "Run optuna storage upgrade, or choose another database with --storage FILE.",
            ) from error
        self._study: optuna.Study | None = None

    def close(self) -> None:
        """Close the connections."""
        self._rdb.remove_session()
        self._rdb.engine.dispose()

    def remove(self) -> None:
        """Remove the study where it is ours."""
        with translated(self._url, OptunaError):
            study = self._existing()
            if study is not None:
                optuna.delete_study(study_name=self._name, storage=self._rdb)
            self._study = None

    def reconcile(self, store: Store, plan: Plan) -> list[LaunchRecord]:
        """Make Optuna's study say what our tables say.

        Trials that a dead process left behind are failed, launches that were not told are
        told; where the space has changed, all is told anew.

        Returns:
            The launches, with the numbers of their trials.

        Raises:
            UsageError: Another program has a study of this name.
        """
        space = distributions(plan.knobs)
        text = json.dumps({name: distribution_to_json(d) for name, d in space.items()})
        with translated(self._url, OptunaError):
            study = self._existing()
            if study is not None and not _fits(study, text, plan.records):
                optuna.delete_study(study_name=self._name, storage=self._rdb)
                study = None
            anew = study is None
            if study is None:
                study = optuna.create_study(study_name=self._name, storage=self._rdb)
                study.set_user_attr(OURS, text)
            self._study = study
            known = {t.user_attrs.get(LAUNCH): t for t in _settle(study, plan.records)}
            return [self._told(store, record, known, plan, anew=anew) for record in plan.records]

    def _told(
        self,
        store: Store,
        record: LaunchRecord,
        known: dict[Any, FrozenTrial],
        plan: Plan,
        *,
        anew: bool,
    ) -> LaunchRecord:
        """Tell of one launch, if it is a trial that was not told."""
        if record.purpose not in stats.TRIALS or stats.was_interrupted(record):
            number = None
        elif record.number in known:
            number = known[record.number].number
        elif record.trial is not None and not anew:
            number = record.trial
        else:
            number = self._add(record, plan)
        if number != record.trial:
            store.set_trial(self._name, record.number, number)
        return replace(record, trial=number)

    def _add(self, record: LaunchRecord, plan: Plan) -> int | None:
        """Add a finished trial; ``None`` where the setting does not lie in the space."""
        assert self._study is not None
        space = distributions(plan.knobs)
        params = plan.pooling.canonical(record.setting).as_dict()
        if not all(n in space and _within(space[n], value) for n, value in params.items()):
            return None
        value, state = _verdict(record)
        trial = create_trial(
            state=state,
            value=value,
            params=params,
            distributions={name: space[name] for name in params},
            user_attrs=_attributes(record),
        )
        self._study.add_trial(trial)
        return len(self._study.get_trials(deepcopy=False)) - 1

    def ask(self, sampler: GivenSampler, plan: Plan) -> optuna.Trial:
        """Begin a trial with what the sampler proposes; ``params`` are the setting."""
        assert self._study is not None
        with translated(self._url, OptunaError):
            self._study.sampler = sampler
            return self._study.ask(distributions(plan.knobs))

    def tell(self, trial: optuna.Trial, record: LaunchRecord) -> None:
        """End a trial with what our tables say of it already."""
        assert self._study is not None
        value, state = _verdict(record)
        with translated(self._url, OptunaError):
            for key, text in _attributes(record).items():
                trial.set_user_attr(key, text)
            self._study.tell(trial, value, state)

    def abandon(self, trial: optuna.Trial) -> None:
        """End a trial that gave nothing, not even a failure of its setting."""
        assert self._study is not None
        with translated(self._url, OptunaError):
            self._study.tell(trial, state=TrialState.FAIL)

    def _existing(self) -> optuna.Study | None:
        study = None
        with suppress(KeyError):
            study = optuna.load_study(study_name=self._name, storage=self._rdb)
        if study is not None and OURS not in study.user_attrs:
            raise UsageError(
                f"the database {display_url(self._url)} holds an Optuna study {self._name}"
                " of another program",
                "Choose another name with --name NAME, or another database with --storage FILE.",
            )
        return study


def _fits(study: optuna.Study, space: str, records: Sequence[LaunchRecord]) -> bool:
    """True where the trials were told in this space and none that we know of is missing."""
    if study.user_attrs[OURS] != space:
        return False
    return len(study.get_trials(deepcopy=False)) > max(
        (record.trial for record in records if record.trial is not None), default=-1
    )


def _settle(study: optuna.Study, records: Sequence[LaunchRecord]) -> list[FrozenTrial]:
    """End the trials that a dead process left running; the study's trials after that."""
    by_trial = {record.trial: record for record in records if record.trial is not None}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        record = by_trial.get(trial.number)
        value, state = _verdict(record) if record else (None, TrialState.FAIL)
        study.tell(trial.number, value, state)
    return study.get_trials(deepcopy=False)


def _verdict(record: LaunchRecord) -> tuple[float | None, TrialState]:
    value = stats.estimate_s(record.outcome.samples)
    return value, TrialState.FAIL if value is None else TrialState.COMPLETE


def _attributes(record: LaunchRecord) -> dict[str, Any]:
    ending = record.outcome.ending
    failure = {"failure": f"{ending.kind}: {ending.reason}"} if isinstance(ending, Failed) else {}
    return {LAUNCH: record.number, "purpose": record.purpose.value, **failure}


def _within(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except (ValueError, TypeError):  # a name in a range of numbers
        return False
