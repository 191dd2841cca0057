"""Optuna's study: a projection of our tables, which can be made anew from them at any time.

It is there for Optuna's own tools, the dashboard first; proposals do not read it.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Sequence
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

from tuner.model import Failed, IntRange, Knob, LaunchRecord, Measurement, Purpose, Stopped, figures
from tuner.model.errors import UsageError
from tuner.stats import estimates
from tuner.store.database import BUSY_S, engine_options
from tuner.store.failures import translated
from tuner.store.urls import display_url
from tuner.study.history import History

if TYPE_CHECKING:
    from tuner.store import Store

#: So often another process may be quicker to make Optuna's tables.
RACES = 20


def translating(url: str) -> AbstractContextManager[None]:
    """While entered, what Optuna and the database complain about is one error for the user."""
    return translated(url, optuna.exceptions.OptunaError)


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


def name_metric(study: optuna.Study, name: str) -> None:
    """Say what the study's values are, instead of "Objective 0"."""
    if study.metric_names != [name]:
        with warnings.catch_warnings():
            # The method is marked experimental; nothing but the label depends on it.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([name])


def load(storage: RDBStorage, name: str) -> optuna.Study | None:
    """The study of that name; ``None`` before its first trial was told."""
    try:
        return optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return None


#: On each of Optuna's trials: the number of the launch that it tells of.
LAUNCH = "launch"

#: Launches that tell something of a setting; Optuna knows no baseline and no confirmation.
_TOLD = frozenset({*estimates.TRIALS, Purpose.REPEAT})

#: Where Optuna keeps constraints: a positive value is one that does not hold.
_CONSTRAINTS = "constraints"


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {knob.name: _distribution(knob) for knob in knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    if isinstance(knob.domain, IntRange):
        assert isinstance(knob.domain.high, int)
        return IntDistribution(knob.domain.low, knob.domain.high)
    return CategoricalDistribution(knob.domain.values)


def is_told(history: History, record: LaunchRecord) -> bool:
    """True if the launch tells of a setting in the present space."""
    if record.purpose not in _TOLD or estimates.is_excluded(record):
        return False
    return history.contains(history.pooling.canonical(record.setting))


def state_of(record: LaunchRecord) -> TrialState:
    """What Optuna is told that became of the launch."""
    ending = record.outcome.ending
    if isinstance(ending, Stopped):
        return TrialState.PRUNED
    return TrialState.FAIL if isinstance(ending, Failed) else TrialState.COMPLETE


def value_of(history: History, record: LaunchRecord) -> float | None:
    """The launch's figure in the user's unit; ``None`` if it never came to its end."""
    return figures.figure(history.spec.objective, estimates.estimate_s(record.outcome.samples))


def as_trial(history: History, record: LaunchRecord) -> FrozenTrial:
    """The launch as Optuna's trial: its figure, in the user's unit.

    Optuna knows no bounds: a stopped launch is pruned, its projection an intermediate value at
    the last iteration that it logged. A failure is a constraint that does not hold.
    """
    ending = record.outcome.ending
    failed = isinstance(ending, Failed)
    notes: dict[str, Any] = {LAUNCH: record.number, "purpose": record.purpose.value}
    if record.job is not None:
        notes["job"] = record.job
    seen: dict[int, float] = {}
    if isinstance(ending, Failed):
        notes["failure"] = f"{ending.kind}: {ending.reason}"
    elif isinstance(ending, Stopped):
        progress = record.outcome.progress
        seen[progress[-1].iteration if progress else 0] = ending.projection_s
        notes |= {"bound_s": ending.bound_s, "rule": ending.rule}
    params = history.pooling.canonical(record.setting).as_dict()
    trial = create_trial(
        state=state_of(record),
        value=value_of(history, record),
        params=params,
        distributions=distributions(tuple(k for k in history.knobs if k.name in params)),
        user_attrs=notes,
        system_attrs={_CONSTRAINTS: (1.0 if failed else 0.0,)},
        intermediate_values=seen,
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial


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

    def reconcile(self, history: History) -> tuple[LaunchRecord, ...]:
        """Make Optuna's study say what our tables say.

        If its trials are the first of those that they should be, the rest is added. Otherwise
        (the space has changed, a launch is judged otherwise now, another program was here) the
        study is made anew.

        Args:
            history: The launches of our tables.

        Returns:
            The launches, with the numbers of their trials.

        Raises:
            UsageError: Another program has a study of this name.
        """
        told = [record for record in history.records if is_told(history, record)]
        with translated(self._store.url, OptunaError, opened=True):
            study = self._existing()
            if study is not None and not _is_begun(study, history, told):
                optuna.delete_study(study_name=self._name, storage=self._rdb)
                study = None
            known = 0 if study is None else len(study.get_trials(deepcopy=False))
            if study is None:
                self._create(history)
        numbers = {record.number: number for number, record in enumerate(told[:known])}
        numbers |= {r.number: self._add(as_trial(history, r)) for r in told[known:]}
        return tuple(self._numbered(r, numbers.get(r.number)) for r in history.records)

    def tell(self, history: History) -> tuple[LaunchRecord, ...]:
        """Tell of the history's last launch, which our tables hold.

        Where a commit fails, Optuna makes the trial once more, though the first may be there (a
        network file system, a connection that broke): then the study is compared as a whole.

        Returns:
            The launches, with the numbers of their trials.
        """
        *before, last = history.records
        if not is_told(history, last):
            return (*before, self._numbered(last, None))
        number = self._add(as_trial(history, last))
        if number != sum(record.trial is not None for record in before):
            return self.reconcile(history)
        return (*before, self._numbered(last, number))

    def _numbered(self, record: LaunchRecord, number: int | None) -> LaunchRecord:
        if number != record.trial:
            self._store.set_trial(self._name, record.number, number)
        return replace(record, trial=number)

    def _add(self, trial: FrozenTrial) -> int:
        with translated(self._store.url, OptunaError, opened=True):
            key = self._rdb.get_study_id_from_name(self._name)
            return self._rdb.get_trial_number_from_id(self._rdb.create_new_trial(key, trial))

    def _create(self, history: History) -> None:
        maximize = history.spec.objective.maximize
        towards = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
        study = optuna.create_study(study_name=self._name, storage=self._rdb, direction=towards)
        study.set_user_attr(OURS, _space(history))

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


def _is_begun(study: optuna.Study, history: History, told: Sequence[LaunchRecord]) -> bool:
    """True if the study's trials are the first of those that it should have."""
    trials = study.get_trials(deepcopy=False)
    return (
        study.user_attrs[OURS] == _space(history)
        and len(trials) <= len(told)
        and all(_is_of(t, history, record) for t, record in zip(trials, told, strict=False))
    )


def _is_of(trial: FrozenTrial, history: History, record: LaunchRecord) -> bool:
    """True if it is the launch's trial, with the same end and figure: windows are rescaled."""
    ours, theirs = value_of(history, record), trial.value
    if trial.user_attrs.get(LAUNCH) != record.number or trial.state is not state_of(record):
        return False
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-6)


def _space(history: History) -> str:
    space = distributions(history.knobs)
    texts: dict[str, object] = {name: distribution_to_json(d) for name, d in space.items()}
    conditions = {knob.name: knob.when for knob in history.knobs if knob.when}
    return json.dumps(texts | ({"{when}": conditions} if conditions else {}))


#: Below this many settings the numbers would say more about chance than about the knobs.
FEWEST = 6

#: The share of the settings that count as fast. Optuna's own tenth would be one setting of
#: eight, and would call the knob important that tells the best two apart by noise.
FAST_SHARE = 0.5

#: Of more settings than this an even selection by rank is looked at: the shares stay the same
#: within their own uncertainty, and 2,000 settings would take a quarter of a second longer.
MOST = 500


def importance(history: History) -> dict[str, float]:
    """The share of each tuned knob in what makes a setting fast, the largest first.

    PED-ANOVA (Watanabe et al., IJCAI 2023; arXiv 2304.10255), of knobs that exist in some
    settings only by its conditional form (arXiv 2601.20800), on what our tables hold: for a
    setting that was stopped, its projection. The shares add up to 1. Empty below six
    settings with a time, or if no knob varies.
    """
    measured = [
        m
        for m in estimates.measurements(history.records, history.pooling.canonical)
        if m.typical_s is not None and history.contains(m.setting)
    ]
    varied = [
        k.name
        for k in history.knobs
        if len({m.setting.as_dict().get(k.name) for m in measured} - {None}) > 1
    ]
    if len(measured) < FEWEST or not varied:
        return {}
    return _evaluate(history, _selection(measured), varied)


def _selection(measured: list[Measurement]) -> list[Measurement]:
    """At most ``MOST`` settings, spread evenly from the fastest to the slowest."""
    ranked = sorted(measured, key=lambda m: (m.typical_s or 0.0, m.setting.to_json()))
    step = max(1.0, len(ranked) / MOST)
    return [ranked[int(place * step)] for place in range(min(MOST, len(ranked)))]


def _evaluate(history: History, measured: list[Measurement], varied: list[str]) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: d for name, d in distributions(history.knobs).items() if name in varied}
    study = optuna.create_study()
    study.add_trials(
        optuna.trial.create_trial(
            value=m.typical_s,
            params=(params := {k: v for k, v in m.setting.items if k in space}),
            distributions={name: space[name] for name in params},
        )
        for m in measured
    )
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=FAST_SHARE)
    with warnings.catch_warnings():
        # Of a knob that exists in few settings Optuna says that its share is inaccurate, with
        # the paths of its own code; that few say little is known of every share here.
        warnings.simplefilter("ignore", UserWarning)
        return optuna.importance.get_param_importances(study, evaluator=evaluator)
