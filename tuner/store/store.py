"""The store: studies and their launches, each change committed at once."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from tuner.hosts import lock
from tuner.launch.secrets import Redactor, redact_spec
from tuner.model import (
    Exclusion,
    Finished,
    JsonDict,
    LaunchRecord,
    StudySpec,
    StudyState,
    Telemetry,
    codec,
)
from tuner.model.errors import TunerError, UsageError, shown
from tuner.store import database, rows, schema
from tuner.store.failures import translated
from tuner.store.identity import identity, merged
from tuner.store.rows import StudyRow, StudySummary, Summary
from tuner.store.urls import display_url, place, sqlite_path

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

GONE = "the process that measured it is gone"

_STUDIES, _LAUNCHES = schema.studies, schema.launches
_LAST_FIRST = _STUDIES.c.updated_at.desc(), _STUDIES.c.id.desc()

_Row = TypeVar("_Row", StudyRow, StudySummary)


class Store:
    """Our tables in one database.

    Every method commits before it returns. Any may raise ``BusyError`` if the database is
    locked for longer than 10 s, ``UsageError`` if it turns out read-only or corrupt, and
    ``TunerError`` if the disk is full or the file was moved, removed or replaced: what was
    committed before is kept.
    """

    def __init__(self, url: str, engine: Engine) -> None:
        self.url = url
        self._engine = engine
        path = sqlite_path(url)
        self._path = None if path is None else path.absolute()
        self._file = _file(self._path)

    @classmethod
    def open(cls, url: str, *, create: bool, busy_s: float = database.BUSY_S) -> Store:
        """Open a database; see :func:`tuner.store.database.connect` for the errors."""
        return cls(url, database.connect(url, create=create, busy_s=busy_s))

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- studies ---------------------------------------------------------------------

    def studies(self) -> list[StudySummary]:
        """All studies, the one worked on last first."""
        with self._transaction() as connection:
            found = connection.execute(sa.select(_STUDIES).order_by(*_LAST_FIRST)).all()
        summaries = []
        for row in found:
            with self._readable(f"study {shown(row.name)}"):
                belongs = codec.loads(dict[str, Any], row.identity)
                summaries.append(self._as_it_is(rows.study_summary(row), belongs))
        return summaries

    def latest(self) -> str | None:
        """The name of the study worked on last, ``None`` if there is none."""
        query = sa.select(_STUDIES.c.name).order_by(*_LAST_FIRST).limit(1)
        with self._transaction() as connection:
            return connection.execute(query).scalar()

    def find(self, name: str) -> StudyRow | None:
        """The study of that name, ``None`` if there is none."""
        query = sa.select(_STUDIES).where(_STUDIES.c.name == name)
        with self._transaction() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        with self._readable(f"study {shown(name)}"):
            found = rows.study_row(row)
        return self._as_it_is(found, found.identity)

    def has(self, name: str) -> bool:
        """True if there is a study of that name, readable or not."""
        with self._transaction() as connection:
            return _id(connection, name) is not None

    def load(self, name: str) -> StudyRow:
        """The study of that name.

        Raises:
            UsageError: There is none; the hint names the nearest ones.
        """
        row = self.find(name)
        if row is None:
            raise self._no_study(name)
        return row

    def create(self, spec: StudySpec) -> StudyRow:
        """Add a study without launches; of its commands all but the secrets is stored.

        Raises:
            UsageError: The name is taken.
        """
        moment = rows.now()
        columns = {
            **{"name": spec.name, "state": StudyState.RUNNING.value, "reason": ""},
            "spec": codec.dumps(redact_spec(spec, os.environ)),
            "identity": codec.dumps(identity(spec)),
            **{"created_at": moment, "updated_at": moment, "forgiven_until": 0},
            **rows.summary_columns(Summary()),
        }
        with self._transaction() as connection:
            try:
                connection.execute(sa.insert(_STUDIES).values(columns))
            except sa.exc.IntegrityError as error:
                raise UsageError(
                    f"the study {spec.name} exists already", "choose another with --name NAME"
                ) from error
        return self.load(spec.name)

    def update_spec(self, spec: StudySpec) -> None:
        """Replace the spec of the study of that name, which still belongs to the same."""
        belongs = merged(self.load(spec.name).identity, identity(spec))
        kept = redact_spec(spec, os.environ)
        self._update(spec.name, spec=codec.dumps(kept), identity=codec.dumps(belongs))

    def set_state(self, name: str, state: StudyState, reason: str) -> None:
        """Say how far the study is, and why it is not running."""
        self._update(name, state=state.value, reason=Redactor.of(os.environ).text(reason))

    def forgive(self, name: str, launch_number: int) -> None:
        """Forget the failures up to this launch: their settings may be tried again."""
        self._update(name, forgiven_until=launch_number)

    def set_summary(self, name: str, summary: Summary) -> None:
        """Replace what the list of studies says about this one."""
        self._update(name, **rows.summary_columns(summary))

    def remove(self, name: str) -> None:
        """Remove the study with all that is kept of its launches; nothing if there is none."""
        with self._transaction() as connection:
            connection.execute(sa.delete(_STUDIES).where(_STUDIES.c.name == name))

    # --- launches --------------------------------------------------------------------

    def launches(self, name: str, *, detail: bool = True) -> list[LaunchRecord]:
        """The launches of a study in the order they were made.

        ``detail=False`` leaves out what was seen of its ranks (which is empty then): most of
        the reading if there are thousands.
        """
        columns = [c for c in _LAUNCHES.c if detail or c.name not in rows.DETAIL]
        samples: dict[int, list[Finished]] = defaultdict(list)
        with self._transaction() as connection:
            mine = _LAUNCHES.c.study_id == self._study_id(connection, name)
            query = sa.select(*columns).where(mine).order_by(_LAUNCHES.c.number)
            found = connection.execute(query).all()
            # The samples after the launches: another host may add some of both in between.
            joined = sa.select(schema.samples).join(_LAUNCHES).where(mine)
            with self._readable(f"the samples of {shown(name)}"):
                for row in connection.execute(joined.order_by(schema.samples.c.window)):
                    samples[row.launch_id].append(rows.sample(row))
        records = []
        for row in found:
            with self._readable(f"launch {shown(row.number)} of {shown(name)}"):
                records.append(rows.launch_record(row, samples[row.id]))
        return records

    def telemetry(self, name: str, launch_number: int) -> Telemetry | None:
        """What the sampler saw of a launch, which :meth:`launches` leaves out.

        ``None`` if nothing was recorded, or there is no such launch.
        """
        query = sa.select(schema.telemetry).join(_LAUNCHES).order_by(schema.telemetry.c.track)
        with self._transaction() as connection:
            found = connection.execute(
                query.where(
                    _LAUNCHES.c.study_id == self._study_id(connection, name),
                    _LAUNCHES.c.number == launch_number,
                )
            ).all()
        with self._readable(f"telemetry of launch {launch_number} of {shown(name)}"):
            return rows.telemetry(found)

    def folders(self, name: str) -> list[str]:
        """The folders of a study's launches, which need not be readable."""
        query = sa.select(_LAUNCHES.c.folder).order_by(_LAUNCHES.c.number)
        with self._transaction() as connection:
            mine = _LAUNCHES.c.study_id == self._study_id(connection, name)
            return list(connection.execute(query.where(mine)).scalars())

    def add(self, name: str, record: LaunchRecord, summary: Summary | None = None) -> int:
        """Add a launch with its samples and telemetry, and the new summary, in one transaction.

        Returns:
            The number of the launch: the next free one if another host has taken its own.

        Raises:
            UsageError: The study has a launch of that number, or there is no such study.
        """
        outcome, host = record.outcome, record.machine.hostname
        with self._transaction() as connection:
            study_id = self._study_id(connection, name)
            if connection.dialect.name != "sqlite":  # one transaction after the other
                connection.execute(
                    sa.select(_STUDIES.c.id).where(_STUDIES.c.id == study_id).with_for_update()
                )
            mine = sa.select(_LAUNCHES.c.machine).where(_LAUNCHES.c.study_id == study_id)
            taken = connection.execute(mine.where(_LAUNCHES.c.number == record.number)).scalar()
            if taken is not None:
                if codec.loads(dict[str, Any], taken).get("hostname") == host:
                    raise UsageError(
                        f"launch {record.number} of {name} is there already",
                        "another tune works on this study: end it, or use another --name",
                    )
                last = sa.select(sa.func.max(_LAUNCHES.c.number))
                number = connection.execute(last.where(_LAUNCHES.c.study_id == study_id)).scalar()
                record = replace(record, number=(number or 0) + 1)
            columns = {"study_id": study_id, **rows.launch_columns(record)}
            made = connection.execute(sa.insert(_LAUNCHES).values(columns))
            assert made.inserted_primary_key is not None
            (key,) = made.inserted_primary_key
            for window, sample in enumerate(outcome.samples):
                values = {"launch_id": key, "window": window, **rows.sample_columns(sample)}
                connection.execute(sa.insert(schema.samples).values(values))
            if outcome.telemetry is not None:
                seen = rows.telemetry_rows(key, outcome.telemetry)
                connection.execute(sa.insert(schema.telemetry), seen)
            changes = {} if summary is None else rows.summary_columns(summary)
            connection.execute(_updated(name, changes))
        return record.number

    def counts(self, name: str) -> tuple[int, int]:
        """How many launches a study has, and how many of them are excluded."""
        with self._transaction() as connection:
            mine = _LAUNCHES.c.study_id == self._study_id(connection, name)
            query = sa.select(sa.func.count(), sa.func.count(_LAUNCHES.c.exclusion)).where(mine)
            number, excluded = connection.execute(query).one()
            return number, excluded

    def set_trial(self, name: str, launch_number: int, trial_number: int | None) -> None:
        """Note which of Optuna's trials tells of the launch."""
        with self._transaction() as connection:
            mine = _LAUNCHES.c.study_id == self._study_id(connection, name)
            query = sa.update(_LAUNCHES).where(mine, _LAUNCHES.c.number == launch_number)
            connection.execute(query.values(trial=trial_number))

    def require_usable(self, name: str) -> None:
        """Make sure that the next launch of a study could be added; cheap.

        Raises:
            UsageError: Read-only or corrupt, or the study is gone.
            BusyError: Locked by another process.
            TunerError: The file was moved, removed or replaced.
        """
        self._require_same_file()
        with self._transaction() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._study_id(connection, name)

    def exclude(self, name: str, why: Exclusion, numbers: Collection[int] | None = None) -> int:
        """Exclude launches of the study, all or these; returns how many counted until now."""
        with self._transaction() as connection:
            mine = _LAUNCHES.c.study_id == self._study_id(connection, name)
            query = sa.update(_LAUNCHES).where(mine, _LAUNCHES.c.exclusion.is_(None))
            if numbers is not None:
                query = query.where(_LAUNCHES.c.number.in_(numbers))
            return connection.execute(query.values(exclusion=codec.dumps(why))).rowcount

    # --- inside ----------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction, committed at the end; see the class for what it raises."""
        try:
            with translated(self.url, opened=True), self._engine.begin() as connection:
                yield connection
        except TunerError:
            self._require_same_file()  # then that is what is wrong, whatever SQLite calls it
            raise

    def _require_same_file(self) -> None:
        """Make sure that what is committed goes to the file of that name.

        SQLite keeps the file open: without this it would write on into one that was removed.
        """
        found = _file(self._path)
        if found != self._file:
            what = "moved or removed" if found is None else "replaced by another file"
            raise TunerError(
                f"the database {self._path} was {what} while the study ran",
                "put it back, then run the same command again",
            )

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        """Name the rows (``what``) in the error if they are not what ``tune`` writes."""
        try:
            yield
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"the database {display_url(self.url)} holds a row that is not of tune,"
                f" {what}: {str(error)[:200]}",
                "another program or version wrote it, or the disk is damaged: restore a copy, or"
                " begin anew with --fresh or --storage FILE",
            ) from error

    def _as_it_is(self, found: _Row, identity: JsonDict) -> _Row:
        """The study as interrupted if nothing alive measures it any more.

        A process that was killed writes nothing down; but its lock on this host went with it. Of
        other hosts nothing can be said, so what is written stands. Nor does it change for the
        process that holds the lock itself.
        """
        is_here = identity.get("hostname") == socket.gethostname()
        if found.state is not StudyState.RUNNING or not is_here:
            return found
        if lock.may_measure(found.name, database=place(self.url), environ=os.environ):
            return found
        return replace(found, state=StudyState.INTERRUPTED, reason=GONE)

    def _update(self, name: str, **columns: Any) -> None:
        with self._transaction() as connection:
            if not connection.execute(_updated(name, columns)).rowcount:
                raise self._no_study(name)

    def _study_id(self, connection: Connection, name: str) -> int:
        found = _id(connection, name)
        if found is None:
            raise self._no_study(name)
        return found

    def _no_study(self, name: str) -> UsageError:
        names = [study.name for study in self.studies()]
        near = get_close_matches(name, names, n=3) or names[:5]
        hint = f"it has {', '.join(near)}; `tune studies` lists all" if near else ""
        return UsageError(
            f"no study {name} in {display_url(self.url)}", hint or "it has no studies"
        )


def _id(connection: Connection, name: str) -> int | None:
    return connection.execute(sa.select(_STUDIES.c.id).where(_STUDIES.c.name == name)).scalar()


def _updated(name: str, columns: dict[str, Any]) -> sa.Update:
    """With these columns the study is the one worked on last."""
    mine = sa.update(_STUDIES).where(_STUDIES.c.name == name)
    return mine.values(updated_at=rows.now(), **columns)


def _file(path: Path | None) -> tuple[int, int] | None:
    """The file itself, whatever its name; ``None`` if there is none, or for a server."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
