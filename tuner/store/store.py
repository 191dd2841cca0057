"""The store: studies and their launches, in the tables of Optuna's storage.

A study NAME is two studies of Optuna. Its search is NAME, whose parameters are the knobs. All other
launches are trials of NAME/comparison, whose one parameter says which side was launched: the
baseline is no setting of the space.
"""

from __future__ import annotations

import json
import os
import socket
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import sqlalchemy as sa

from tuner.hosts import lock
from tuner.launch.secrets import Redactor, redact_spec
from tuner.model import (
    Exclusion,
    LaunchRecord,
    Observation,
    StudySpec,
    StudyState,
    Telemetry,
    TunedJob,
    codec,
    figures,
)
from tuner.model.errors import TunerError, UsageError, shown
from tuner.store import database, failures, rows, schema
from tuner.store.identity import HOST, identity
from tuner.store.rows import EXCLUDED, LAUNCH, RECORD, STATE, STUDY, SUMMARY, StudyRow, Summary
from tuner.store.tuned_jobs import TUNED_JOB
from tuner.store.urls import display_url, place, sqlite_path

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial
    from sqlalchemy.engine import Connection, Engine

GONE = "the process that measured it is gone"


class _Trial(NamedTuple):
    """A trial of Optuna, with those of our attributes (JSON) that were read."""

    trial_id: int
    number: int | None  # None: it is of the comparison
    attributes: dict[str, str]

    @property
    def launch(self) -> str:
        """The number of its launch, for a message."""
        text = self.attributes.get(LAUNCH, "?")
        return text if text.isdecimal() else shown(text)


def comparison_name(name: str) -> str:
    """Return the name of the study of Optuna that has the launches outside of the search."""
    return f"{name}/comparison"


class Store:
    """The studies in one database.

    Any method may raise ``BusyError`` if the database is locked for longer than 10 s,
    ``UsageError`` if it turns out read-only or corrupt, and ``TunerError`` if the disk is full or
    the file was moved, removed or replaced: what was committed before is kept.
    """

    def __init__(self, url: str, engine: Engine, storage: RDBStorage | None = None) -> None:
        self.url = url
        self._engine = engine
        self._optunas = storage
        path = sqlite_path(url)
        self._path = None if path is None else path.absolute()
        self._file = _file(self._path)

    @classmethod
    def open(cls, url: str, *, create: bool) -> Self:
        """Open a database: to measure (``create``), which makes it if it is missing, or to read.

        For the errors see :func:`tuner.store.database.create` and :func:`~.connect`.
        """
        if create:
            storage = database.create(url)
            return cls(url, storage.engine, storage)
        return cls(url, database.connect(url))

    def close(self) -> None:
        """Close the connections."""
        if self._optunas is not None:
            self._optunas.remove_session()
            self._optunas.engine.dispose()
        self._engine.dispose()
        if self._path is not None and _file(self._path) == self._file:
            database.end_write_ahead(self._path)  # also the second file of a killed process

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Optuna's studies ------------------------------------------------------------

    @property
    def storage(self) -> RDBStorage:
        """Optuna's storage in this database."""
        if self._optunas is None:
            self._optunas = database.optunas_storage(self.url)
        return self._optunas

    def search(self, name: str) -> optuna.Study:
        """Return the study of Optuna whose trials are the launches of the search."""
        return self._load_study(name, name)

    def comparison(self, name: str) -> optuna.Study:
        """Return the study of Optuna whose trials are the other launches."""
        return self._load_study(comparison_name(name), name)

    def _load_study(self, optunas_name: str, name: str) -> optuna.Study:
        """Return a study of Optuna, once Optuna has read its attributes and its trials."""
        import optuna

        with self.translated():
            try:
                study = optuna.load_study(study_name=optunas_name, storage=self.storage)
                _ = study.direction, study.user_attrs, study.get_trials(deepcopy=False)
                return study
            except (TunerError, sa.exc.SQLAlchemyError):
                raise
            except Exception as error:  # Optuna has many errors for rows that it cannot read
                if not self.has(name):
                    raise self._no_study(name) from None
                why = str(error) or type(error).__name__
                text = f"Optuna cannot read study {shown(optunas_name)}: {why[:200]}"
                raise failures.foreign(self.url, text) from error

    # --- studies ---------------------------------------------------------------------

    def studies(self) -> list[StudyRow]:
        """Return all studies, the one that changed last first."""
        attributes = self._attributes(STUDY, SUMMARY)
        studies = (self._row(name, texts) for name, texts in attributes.items())
        return sorted(studies, key=lambda row: row.updated_at, reverse=True)

    def find(self, name: str) -> StudyRow | None:
        """Return the study of that name, ``None`` if there is none."""
        texts = self._attributes(STUDY, SUMMARY, name=name).get(name)
        return None if texts is None else self._row(name, texts)

    def has(self, name: str) -> bool:
        """Return whether there is a study of that name, readable or not."""
        return name in self._attributes(name=name)

    def load(self, name: str) -> StudyRow:
        """Return the study of that name; a `UsageError` that names the nearest if there is none."""
        row = self.find(name)
        if row is None:
            raise self._no_study(name)
        return row

    def create(self, spec: StudySpec) -> StudyRow:
        """Add a study without launches; its commands are stored without their secrets.

        It is a `UsageError` if tune or another program has a study of that name.
        """
        import optuna

        name = spec.name
        if self.has(name):
            raise UsageError(f"the study {name} exists already", "choose another with --name NAME")
        redacted = redact_spec(spec, os.environ)
        attribute = rows.study_attribute(redacted, identity(spec), rows.now())
        with self.translated(), warnings.catch_warnings():
            # Names of metrics are marked experimental.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._delete_remains(name)
            for optunas_name in (comparison_name(name), name):
                optunas_study = optuna.create_study(
                    study_name=optunas_name,
                    storage=self.storage,
                    direction="maximize" if spec.objective.maximize else "minimize",
                )
                optunas_study.set_metric_names([figures.axis(spec.objective)])
            optunas_study.set_user_attr(STUDY, attribute)  # the last one is the search
            optunas_study.set_user_attr(STATE, rows.state_attribute(StudyState.RUNNING, ""))
        return self.load(name)

    def _delete_remains(self, name: str) -> None:
        """Delete what a process has left that was killed while it made a study.

        The comparison is made first, and neither study of Optuna has a trial then: anything else is
        a study of another program, and a `UsageError`.
        """
        study_ids = {}
        for optunas_name in (comparison_name(name), name):
            with suppress(KeyError):
                study_ids[optunas_name] = self.storage.get_study_id_from_name(optunas_name)
        for optunas_name, study_id in study_ids.items():
            attributes = self.storage.get_study_user_attrs(study_id)
            is_empty = not self.storage.get_n_trials(study_id) and attributes.keys() <= {STUDY}
            if not is_empty or comparison_name(name) not in study_ids:
                raise UsageError(
                    f"the database {display_url(self.url)} holds an Optuna study {optunas_name}"
                    f" of another program: it has no {STATE}",
                    "choose another name with --name NAME, or another database with --storage FILE",
                )
        for study_id in study_ids.values():
            self.storage.delete_study(study_id)

    def update_spec(self, spec: StudySpec) -> None:
        """Replace the spec of the study of that name, whose identity is the same."""
        created_at, redacted = self.load(spec.name).created_at, redact_spec(spec, os.environ)
        self._set(spec.name, STUDY, rows.study_attribute(redacted, identity(spec), created_at))

    def set_state(self, name: str, state: StudyState, reason: str) -> None:
        """Store how far the study is, and why it is not running."""
        self._set(name, STATE, rows.state_attribute(state, Redactor.of(os.environ).text(reason)))

    def set_summary(self, name: str, summary: Summary) -> None:
        """Replace what the list of studies shows of this one."""
        self._set(name, SUMMARY, {**codec.to_json(summary), "updated_at": rows.now()})

    def set_tuned_job(self, tuned: TunedJob) -> None:
        """Store the job that a study has tuned, for :func:`tuner.store.tuned_jobs.nearest`."""
        self._set(tuned.study, TUNED_JOB, codec.to_json(tuned))

    def _set(self, name: str, key: str, value: Any) -> None:
        with self.translated():
            try:
                study_id = self.storage.get_study_id_from_name(name)
            except KeyError:
                raise self._no_study(name) from None
            self.storage.set_study_user_attr(study_id, key, value)

    def replace_params(
        self, name: str, params_of: Callable[[FrozenTrial], dict[str, tuple[Any, BaseDistribution]]]
    ) -> None:
        """Replace the parameters of each trial of the search that has ended, of all or of none.

        Optuna cannot do that. A study of Optuna that was loaded before must be loaded again.
        """
        from optuna.distributions import distribution_to_json

        params = schema.trial_params
        ended = [t for t in self.search(name).get_trials(deepcopy=False) if t.state.is_finished()]
        new_rows = [
            {
                "trial_id": trial._trial_id,
                "param_name": param,
                "param_value": distribution.to_internal_repr(value),
                "distribution_json": distribution_to_json(distribution),
            }
            for trial in ended
            for param, (value, distribution) in params_of(trial).items()
        ]
        with self._transaction() as connection:
            is_of_ended = params.c.trial_id.in_([trial._trial_id for trial in ended])
            connection.execute(sa.delete(params).where(is_of_ended))
            if new_rows:
                connection.execute(sa.insert(params), new_rows)

    def remove(self, name: str) -> None:
        """Remove the study with all that is stored of its launches; do nothing without one."""
        import optuna

        if not self.has(name):
            return
        with self.translated():
            for optunas_name in (comparison_name(name), name):
                with suppress(KeyError):
                    optuna.delete_study(study_name=optunas_name, storage=self.storage)
        with self._transaction() as connection:
            if sa.inspect(connection).has_table(schema.observations.name):
                trial_ids = sa.select(schema.trials.c.trial_id)
                is_orphan = schema.observations.c.trial_id.not_in(trial_ids)
                connection.execute(sa.delete(schema.observations).where(is_orphan))

    # --- launches --------------------------------------------------------------------

    def launches(self, name: str, *, detail: bool = True) -> list[LaunchRecord]:
        """Return the launches of a study in the order they were made.

        ``detail=False`` leaves the observations of ranks empty, which take most of the reading if
        there are thousands of launches.
        """
        trials = self._trials(name, LAUNCH, RECORD)
        observations = self._observations(trials, "ranks") if detail else {}
        excluded = self._excluded(name)
        records = []
        for trial in trials:
            if RECORD not in trial.attributes:
                continue  # the launch runs, or was lost
            with self._readable(f"launch {trial.launch} of {shown(name)}"):
                record = rows.launch_record(json.loads(trial.attributes[RECORD]))
                record = rows.with_exclusion(record, excluded)
                outcome = record.outcome
                if ranks := observations.get(trial.trial_id):
                    outcome = replace(outcome, observation=codec.loads(Observation, ranks))
                number = None if trial.number is None else codec.from_json(int, trial.number)
                records.append(replace(record, outcome=outcome, trial=number))
        return sorted(records, key=lambda record: record.number)

    def telemetry(self, name: str, launch_number: int) -> Telemetry | None:
        """Return the telemetry of a launch, which :meth:`launches` leaves out.

        ``None`` if none was recorded, or there is no such launch.
        """
        trials = [t for t in self._trials(name, LAUNCH) if t.launch == str(launch_number)]
        with self._readable(f"telemetry of launch {launch_number} of {shown(name)}"):
            texts = self._observations(trials, "telemetry").values()
            return next((codec.loads(Telemetry, text) for text in texts), None)

    def last_number(self, name: str) -> int:
        """Return the highest number of a launch, also of one that runs; 0: there is none."""
        return max((number for number, _ in self._numbers(name)), default=0)

    def has_number_first(self, name: str, number: int, trial_id: int) -> bool:
        """Return whether a trial was the first one to give its launch this number."""
        return min(owner for n, owner in self._numbers(name) if n == number) == trial_id

    def _numbers(self, name: str) -> list[tuple[int, int]]:
        """Return the numbers of the launches with the ids of their trials."""
        trials = self._trials(name, LAUNCH)
        with self._readable(f"the number of a launch of {shown(name)}"):
            return [(int(trial.attributes[LAUNCH]), trial.trial_id) for trial in trials]

    def folders(self, name: str) -> list[str]:
        """Return the folders of a study's launches, as far as they can be read."""
        folders = []
        for trial in self._trials(name, LAUNCH, RECORD):
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                document = json.loads(trial.attributes[RECORD])
                folders.append(codec.from_json(str, document["folder"]))
        return folders

    def keep(self, trial_id: int, record: LaunchRecord) -> None:
        """Store the record of a launch on its trial, with its observation and telemetry.

        Optuna raises ``KeyError`` if the trial is gone, ``UpdateFinishedTrialError`` if it ended.
        """
        self.keep_observation(trial_id, record)  # first: with the attribute the launch counts
        self.storage.set_trial_user_attr(trial_id, RECORD, rows.launch_attribute(record))

    def keep_observation(self, trial_id: int, record: LaunchRecord) -> None:
        """Store the observation and the telemetry of a launch, in place of earlier ones."""
        telemetry = record.outcome.telemetry
        row = {
            "trial_id": trial_id,
            "ranks": codec.dumps(record.outcome.observation),
            "telemetry": None if telemetry is None else codec.dumps(telemetry),
        }
        with self._transaction() as connection:
            is_same = schema.observations.c.trial_id == trial_id
            connection.execute(sa.delete(schema.observations).where(is_same))
            connection.execute(sa.insert(schema.observations), row)

    def exclude(self, name: str, why: Exclusion, numbers: Collection[int]) -> None:
        """Exclude launches of the study; one that is excluded already keeps its reason."""
        reasons = dict.fromkeys(numbers, why) | self._excluded(name)
        self._set(name, EXCLUDED, {str(n): codec.to_json(reasons[n]) for n in sorted(reasons)})

    def require_usable(self, name: str) -> None:
        """Raise an error if the next launch of a study could not be stored; cheap.

        After it all that is stored is on the disk, and in the one file of an SQLite database: while
        a launch runs that can be copied, and the host may lose its power.
        """
        with self.translated(), self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                connection.rollback()
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        if not self.has(name):
            raise self._no_study(name)

    # --- inside ----------------------------------------------------------------------

    def _attributes(self, *keys: str, name: str | None = None) -> dict[str, dict[str, str]]:
        """Return the state and these attributes (JSON) of our studies, or of one, by name."""
        studies, attributes = schema.studies.c, schema.study_attributes.c
        is_same = studies.study_id == attributes.study_id
        query = sa.select(studies.study_name, attributes.key, attributes.value_json)
        query = query.join_from(schema.studies, schema.study_attributes, is_same)
        query = query.where(attributes.key.in_((STATE, *keys)))
        if name is not None:
            query = query.where(studies.study_name == name)
        texts_by_study: dict[str, dict[str, str]] = defaultdict(dict)
        with self._transaction() as connection:
            for study, key, text in connection.execute(query.order_by(studies.study_id.desc())):
                texts_by_study[study][key] = text
        return {study: texts for study, texts in texts_by_study.items() if STATE in texts}

    def _trials(self, name: str, *keys: str) -> list[_Trial]:
        """Return the trials that are launches of a study, with attributes, in their order."""
        if not self.has(name):
            raise self._no_study(name)
        studies, trials, attributes = schema.studies, schema.trials, schema.trial_attributes
        t, a = trials.c, attributes.c
        query = sa.select(t.trial_id, t.number, studies.c.study_name, a.key, a.value_json)
        joined = trials.join(studies, t.study_id == studies.c.study_id)
        query = query.select_from(joined.join(attributes, t.trial_id == a.trial_id))
        is_ours = studies.c.study_name.in_([name, comparison_name(name)])
        query = query.where(is_ours, a.key.in_(keys))
        by_id: dict[int, _Trial] = {}
        with self._transaction() as connection:
            result = connection.execute(query.order_by(t.trial_id))
            for trial_id, number, study, key, text in result:
                trial = _Trial(trial_id, number if study == name else None, attributes={})
                by_id.setdefault(trial_id, trial).attributes[key] = text
        return list(by_id.values())

    def _excluded(self, name: str) -> dict[int, Exclusion]:
        """Return the launches of a study that do not count any more, by their numbers."""
        texts = self._attributes(EXCLUDED, name=name).get(name, {})
        with self._readable(f"what does not count of {shown(name)}"):
            return rows.excluded({key: json.loads(text) for key, text in texts.items()})

    def _observations(self, trials: Collection[_Trial], what: str) -> dict[int, str]:
        """Return a column of our table for these trials, by trial, as JSON; {} without a table."""
        ids, columns = [trial.trial_id for trial in trials], schema.observations.c
        with self._transaction() as connection:
            if not ids or not sa.inspect(connection).has_table(schema.observations.name):
                return {}
            query = sa.select(columns.trial_id, columns[what])
            query = query.where(
                columns.trial_id.between(min(ids), max(ids)), columns[what].is_not(None)
            )
            return {row.trial_id: row[1] for row in connection.execute(query)}

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of Optuna and the database into one error for the user.

        SQLite keeps the file open, so it would write into one that was removed: that is an error.
        """
        if _file(self._path) != self._file:
            raise TunerError(
                f"the database {self._path} was moved, removed or replaced while the study ran",
                "put it back, then run the same command again",
            )
        with failures.translated(self.url, opened=True):
            yield

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Open a transaction, and commit it at the end; see the class for the errors."""
        with self.translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        """Name the rows (``what``) in the error if they are not what ``tune`` writes."""
        try:
            yield
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"the database {display_url(self.url)} holds what is not of tune,"
                f" {what}: {str(error)[:200]}",
                "another program or version wrote it, or the disk is damaged: restore a copy, or"
                " begin anew with --fresh or --storage FILE",
            ) from error

    def _row(self, name: str, texts: Mapping[str, str]) -> StudyRow:
        """Return a study, as interrupted if no process measures it any more.

        A killed process stores no state, but its lock on this host has ended with it. The stored
        state counts if the study is of another host, or of the process that holds the lock itself.
        """
        with self._readable(f"study {shown(name)}"):
            row = rows.study_row(name, {key: json.loads(text) for key, text in texts.items()})
        is_here = row.identity.get(HOST) == socket.gethostname()
        if row.state is not StudyState.RUNNING or not is_here:
            return row
        if lock.may_measure(name, database=place(self.url), environ=os.environ):
            return row
        return replace(row, state=StudyState.INTERRUPTED, reason=GONE)

    def _no_study(self, name: str) -> UsageError:
        names = [study.name for study in self.studies()]
        near = get_close_matches(name, names, n=3) or names[:5]
        hint = f"it has {', '.join(near)}; `tune studies` lists all" if near else ""
        return UsageError(
            f"no study {name} in {display_url(self.url)}", hint or "it has no studies"
        )


def _file(path: Path | None) -> tuple[int, int] | None:
    """Return what identifies a file whatever its name; ``None`` without one, or for a server."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
