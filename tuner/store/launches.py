"""Launches, their samples and what the sampler saw of them, as rows and back."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.model import (
    Ending,
    Exclusion,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Machine,
    Progress,
    Setting,
    Stopped,
    Telemetry,
    Track,
)
from tuner.store import codec, schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def insert(connection: Connection, study_id: int, record: LaunchRecord) -> None:
    """Add a launch with its samples and telemetry."""
    launch = sa.insert(schema.launches).values(study_id=study_id, **launch_columns(record))
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
    _insert_telemetry(connection, key[0], record.outcome.telemetry)


def select(
    connection: Connection, study_id: int, *, detail: bool
) -> list[tuple[Any, list[Finished]]]:
    """The rows of a study's launches in the order they were made, each with its samples.

    ``detail=False`` leaves out the columns of ``DETAIL``.
    """
    table = schema.launches
    mine = table.c.study_id == study_id
    by_launch: dict[int, list[Finished]] = defaultdict(list)
    joined = sa.select(schema.samples).join(table).where(mine)
    for row in connection.execute(joined.order_by(schema.samples.c.window)):
        by_launch[row.launch_id].append(
            Finished(row.elapsed_s, row.iterations, row.epochs, row.loss)
        )
    columns = [c for c in table.c if detail or c.name not in DETAIL]
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


def launch_columns(record: LaunchRecord) -> dict[str, Any]:
    """A launch as columns of ``tune_launches``; its samples are rows of their own."""
    outcome = record.outcome
    failed = outcome.ending if isinstance(outcome.ending, Failed) else None
    stopped = outcome.ending if isinstance(outcome.ending, Stopped) else None
    return {
        "number": record.number,
        "purpose": record.purpose.value,
        "setting": record.setting.to_json(),
        "trial": record.trial,
        "folder": record.folder,
        "started_at": record.started_at,
        "wall_s": outcome.wall_s,
        "exit_code": outcome.exit_code,
        "failure_kind": failed.kind.value if failed else None,
        "failure_reason": failed.reason if failed else None,
        "log_tail": failed.log_tail if failed else None,
        "argv": codec.dumps(record.argv),
        "env": codec.dumps(record.env),
        "machine": codec.dumps(record.machine),
        "progress": json.dumps([[p.iteration, p.elapsed_s, p.seen_s] for p in outcome.progress]),
        "observation": codec.dumps(outcome.observation),
        "effects": codec.dumps(outcome.effects),
        "stopped": codec.dumps(stopped) if stopped else None,
        "load": codec.dumps(outcome.load) if outcome.load else None,
        "window": codec.dumps(outcome.window) if outcome.window else None,
        "exclusion": codec.dumps(outcome.exclusion) if outcome.exclusion else None,
    }


#: How versions before 3 called a kind of failure.
_RENAMED = {"stopped early": FailureKind.WRONG_RESULT.value}

#: The columns that are left out if only settings and times are wanted.
DETAIL = frozenset({"observation"})


def launch_record(row: Any, samples: list[Finished]) -> LaunchRecord:
    """The inverse of :func:`launch_columns`; the columns of ``DETAIL`` may be missing."""
    datetime.fromisoformat(row.started_at)

    def optional(text: str | None) -> Any:
        return None if text is None else json.loads(text)

    outcome = {
        "ending": _ending(row, samples),
        "wall_s": row.wall_s,
        "exit_code": row.exit_code,
        "progress": _progress(row.progress),
        "observation": json.loads(getattr(row, "observation", "{}")),
        "effects": json.loads(row.effects),
        "load": optional(row.load),
        "window": optional(row.window),
        "exclusion": optional(row.exclusion),
    }
    document = {
        "number": row.number,
        "purpose": row.purpose,
        "setting": Setting.from_json(row.setting),
        "argv": json.loads(row.argv),
        "env": json.loads(row.env),
        "folder": row.folder,
        "started_at": row.started_at,
        "outcome": outcome,
        "machine": _machine(row.machine),
        "trial": row.trial,
    }
    return codec.from_json(LaunchRecord, document)


_PROGRESS = ("iteration", "elapsed_s", "seen_s")


def _progress(text: str) -> tuple[Progress, ...]:
    return tuple(
        codec.from_json(Progress, dict(zip(_PROGRESS, each, strict=False)))
        for each in json.loads(text)
    )


def _ending(row: Any, samples: list[Finished]) -> Ending:
    if row.failure_kind is not None:
        kind = FailureKind(_RENAMED.get(row.failure_kind, row.failure_kind))
        document = {"reason": row.failure_reason or "", "log_tail": row.log_tail or ""}
        return codec.from_json(Failed, {"kind": kind, **document})
    if row.stopped is not None:
        return codec.loads(Stopped, row.stopped)
    if not samples:
        raise ValueError("it finished, but has no row in tune_samples")
    return samples[-1]  # one row a launch today; of several, the last is the one that ended it


_machines: dict[str, Machine] = {}


def _machine(text: str) -> Machine:
    """Decode a machine once: every launch of a study carries the same one."""
    if text not in _machines:
        _machines[text] = codec.loads(Machine, text)
    return _machines[text]


# Telemetry is large, and only read if a launch is to be explained: no list of launches has it.


def _insert_telemetry(connection: Connection, launch_id: int, found: Telemetry | None) -> None:
    """Add the rows of a launch, if there is any."""
    if found is None:
        return
    rows: list[dict[str, Any]] = [
        {"host": None, "rank": None, "content": codec.dumps(replace(found, tracks=()))}
    ]
    rows += [
        {"host": track.host, "rank": track.rank, "content": codec.dumps(track)}
        for track in found.tracks
    ]
    for number, row in enumerate(rows):
        row |= {"launch_id": launch_id, "track": number}
    connection.execute(sa.insert(schema.telemetry), rows)


def select_telemetry(connection: Connection, study_id: int, launch_number: int) -> Sequence[Any]:
    """The rows of a launch; none if nothing was recorded, or before there was such a table."""
    if not sa.inspect(connection).has_table(schema.telemetry.name):
        return ()
    table = schema.launches
    mine = (table.c.study_id == study_id, table.c.number == launch_number)
    query = sa.select(schema.telemetry).join(table).where(*mine)
    return connection.execute(query.order_by(schema.telemetry.c.track)).all()


def telemetry(rows: Sequence[Any]) -> Telemetry | None:
    """The inverse of :func:`_insert_telemetry`.

    Raises:
        ValueError, KeyError, TypeError: A row is of another program.
    """
    if not rows:
        return None
    rest, *others = rows
    tracks = tuple(codec.loads(Track, row.content) for row in others)
    return replace(codec.loads(Telemetry, rest.content), tracks=tracks)
