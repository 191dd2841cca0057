"""Launches and their samples, as rows of ``tune_launches`` and ``tune_samples``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.model import Exclusion, LaunchRecord, Sample
from tuner.store import codec, rows, schema, telemetry

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def insert(connection: Connection, study_id: int, record: LaunchRecord) -> None:
    """Add a launch with its samples and telemetry."""
    launch = sa.insert(schema.launches).values(study_id=study_id, **rows.launch_columns(record))
    key = connection.execute(launch).inserted_primary_key
    assert key is not None
    windows = [
        {
            "launch_id": key[0],
            "window": window,
            "elapsed_s": sample.elapsed_s,
            "iterations": sample.iterations,
            "epochs": sample.epochs,
            "loss": sample.loss,
        }
        for window, sample in enumerate(record.outcome.samples)
    ]
    if windows:
        connection.execute(sa.insert(schema.samples), windows)
    telemetry.insert(connection, key[0], record.outcome.telemetry)


def select(
    connection: Connection, study_id: int, *, detail: bool
) -> list[tuple[Any, list[Sample]]]:
    """The rows of a study's launches in the order they were made, each with its samples.

    ``detail=False`` leaves out the columns of ``rows.DETAIL``.
    """
    table = schema.launches
    mine = table.c.study_id == study_id
    by_launch: dict[int, list[Sample]] = defaultdict(list)
    joined = sa.select(schema.samples).join(table).where(mine)
    for row in connection.execute(joined.order_by(schema.samples.c.window)):
        by_launch[row.launch_id].append(rows.sample(row))
    columns = [c for c in table.c if detail or c.name not in rows.DETAIL]
    query = sa.select(*columns).where(mine).order_by(table.c.number)
    return [(row, by_launch[row.id]) for row in connection.execute(query).all()]


def folders(connection: Connection, study_id: int) -> list[str]:
    """Those of a study's launches in the order they were made."""
    table = schema.launches
    query = sa.select(table.c.folder).where(table.c.study_id == study_id)
    return list(connection.execute(query.order_by(table.c.number)).scalars())


def set_trial(
    connection: Connection, study_id: int, launch_number: int, trial_number: int | None
) -> None:
    """Note which of Optuna's trials tells of a launch."""
    table = schema.launches
    mine = table.c.study_id == study_id, table.c.number == launch_number
    connection.execute(sa.update(table).where(*mine).values(trial=trial_number))


def exclude(
    connection: Connection, study_id: int, why: Exclusion, numbers: Collection[int] | None
) -> int:
    """Exclude launches of a study, all or these; returns how many counted until now."""
    table = schema.launches
    mine = table.c.study_id == study_id, table.c.exclusion.is_(None)
    query = sa.update(table).where(*mine).values(exclusion=codec.dumps(why))
    if numbers is not None:
        query = query.where(table.c.number.in_(numbers))
    return connection.execute(query).rowcount
