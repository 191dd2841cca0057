"""Studies, as rows of ``tune_studies``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.launch.secrets import redact_spec
from tuner.model import StudySpec, StudyState
from tuner.store import codec, schema
from tuner.store.identity import identity
from tuner.store.rows import Summary, now, summary_columns

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

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
    """The row of the study of that name, ``None`` where there is none."""
    return connection.execute(sa.select(_TABLE).where(_TABLE.c.name == name)).one_or_none()


def latest(connection: Connection) -> str | None:
    """The name of the study worked on last, ``None`` where there is none."""
    return connection.execute(sa.select(_TABLE.c.name).order_by(*_LAST_FIRST).limit(1)).scalar()


def id_of(connection: Connection, name: str) -> int | None:
    """The key of the study of that name, ``None`` where there is none."""
    return connection.execute(sa.select(_TABLE.c.id).where(_TABLE.c.name == name)).scalar()


def update(connection: Connection, name: str, values: Mapping[str, Any]) -> bool:
    """Replace columns of a study, the one worked on last then; false where there is none."""
    mine = sa.update(_TABLE).where(_TABLE.c.name == name)
    return bool(connection.execute(mine.values(updated_at=now(), **values)).rowcount)


def delete(connection: Connection, name: str) -> None:
    """Remove the study of that name with its launches; nothing where there is none."""
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
