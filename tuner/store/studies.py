"""Studies, as rows of ``tune_studies`` and back."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from tuner.hosts import lock
from tuner.launch.secrets import redact_spec
from tuner.model import (
    BASELINE,
    LOGGED_TIME,
    Conclusion,
    Finding,
    JsonDict,
    ObjectiveSpec,
    Setting,
    StudySpec,
    StudyState,
)
from tuner.store import codec, schema
from tuner.store.identity import identity
from tuner.store.urls import place

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def now() -> str:
    """The time in UTC as ISO 8601, to the microsecond: sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class StudyRow:
    """A study as it is kept; times are ISO 8601, UTC.

    ``forgiven_until`` is the number of the last launch whose failure is forgotten (0: none).
    """

    name: str
    spec: StudySpec
    identity: JsonDict
    state: StudyState
    reason: str
    created_at: str
    updated_at: str
    forgiven_until: int = 0
    best: Setting | None = None  # what the search calls best so far


@dataclass(frozen=True)
class Summary:
    """What a list of studies says about one; kept with it, never worked out for the list."""

    best_setting: Setting | None = None
    best_s: float | None = None
    baseline_s: float | None = None
    trials: int = 0
    launches: int = 0
    failures: int = 0
    conclusion: Conclusion | None = None
    finding: Finding | None = None


@dataclass(frozen=True)
class StudySummary:
    """One line in the list of studies; times are ISO 8601, UTC."""

    name: str
    state: StudyState
    reason: str
    best_setting: Setting | None
    best_s: float | None
    baseline_s: float | None
    trials: int
    launches: int
    failures: int
    created_at: str
    updated_at: str
    conclusion: Conclusion | None = None
    finding: Finding | None = None
    objective: ObjectiveSpec = LOGGED_TIME


def summary_columns(summary: Summary) -> dict[str, Any]:
    """The columns of ``tune_studies`` that hold the summary."""
    best = summary.best_setting
    return {
        "best_setting": None if best is None else best.to_json(),
        "best_s": summary.best_s,
        "baseline_s": summary.baseline_s,
        "trials": summary.trials,
        "launches": summary.launches,
        "failures": summary.failures,
        "conclusion": None if summary.conclusion is None else summary.conclusion.value,
        "finding": None if summary.finding is None else codec.dumps(summary.finding),
    }


def study_summary(row: Any) -> StudySummary:
    """A row of ``tune_studies``; of its spec what the figures are.

    The best is the answer: the baseline, if the confirmation found no gain over it.
    """
    spec = codec.loads(dict[str, Any], row.spec)
    best = None if row.best_setting is None else Setting.from_json(row.best_setting)
    best_s = row.best_s
    if row.conclusion == Conclusion.NO_GAIN and not codec.from_json(
        dict[str, Any], spec.get("fixed", {})
    ).get("items"):
        best, best_s = BASELINE, row.baseline_s
    document = {
        **row._mapping,
        "best_setting": best,
        "best_s": best_s,
        "finding": None if row.finding is None else json.loads(row.finding),
        "objective": spec.get("objective", {}),
    }
    return codec.from_json(StudySummary, document)


def study_row(row: Any) -> StudyRow:
    """A row of ``tune_studies`` in full."""
    document = {
        **row._mapping,
        "spec": json.loads(row.spec),
        "identity": json.loads(row.identity),
        "best": None if row.best_setting is None else Setting.from_json(row.best_setting),
    }
    return codec.from_json(StudyRow, document)


_TABLE = schema.studies
_LAST_FIRST = _TABLE.c.updated_at.desc(), _TABLE.c.id.desc()


def columns(spec: StudySpec) -> dict[str, Any]:
    """Those of a new study without launches; of its commands all but the secrets."""
    moment = now()
    return {
        "name": spec.name,
        "state": StudyState.RUNNING.value,
        "reason": "",
        "spec": codec.dumps(redact_spec(spec, os.environ)),
        "identity": codec.dumps(identity(spec)),
        "created_at": moment,
        "updated_at": moment,
        "forgiven_until": 0,
        **summary_columns(Summary()),
    }


def insert(connection: Connection, values: Mapping[str, Any]) -> None:
    """Add a study."""
    connection.execute(sa.insert(_TABLE).values(values))


def select(connection: Connection) -> Sequence[Any]:
    """The rows of all studies, the one worked on last first."""
    return connection.execute(sa.select(_TABLE).order_by(*_LAST_FIRST)).all()


def find(connection: Connection, name: str) -> Any:
    """The row of the study of that name, ``None`` if there is none."""
    return connection.execute(sa.select(_TABLE).where(_TABLE.c.name == name)).one_or_none()


def latest(connection: Connection) -> str | None:
    """The name of the study worked on last, ``None`` if there is none."""
    return connection.execute(sa.select(_TABLE.c.name).order_by(*_LAST_FIRST).limit(1)).scalar()


def id_of(connection: Connection, name: str) -> int | None:
    """The key of the study of that name, ``None`` if there is none."""
    return connection.execute(sa.select(_TABLE.c.id).where(_TABLE.c.name == name)).scalar()


def update(connection: Connection, name: str, values: Mapping[str, Any]) -> bool:
    """Replace columns of a study, the one worked on last then; false if there is none."""
    mine = sa.update(_TABLE).where(_TABLE.c.name == name)
    return bool(connection.execute(mine.values(updated_at=now(), **values)).rowcount)


def delete(connection: Connection, name: str) -> None:
    """Remove the study of that name with its launches; nothing if there is none."""
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))


Row = TypeVar("Row", StudyRow, StudySummary)

GONE = "the process that measured it is gone"


def as_it_is(found: Row, identity: JsonDict, url: str) -> Row:
    """The study as interrupted if nothing alive measures it any more.

    A process that was killed writes nothing down; but its lock on this host went with it. Of
    other hosts nothing can be said, so what is written stands. Nor does it change for the
    process that holds the lock itself.
    """
    if found.state is not StudyState.RUNNING or identity.get("hostname") != socket.gethostname():
        return found
    if lock.may_measure(found.name, database=place(url), environ=os.environ):
        return found
    return replace(found, state=StudyState.INTERRUPTED, reason=GONE)
