"""What the sampler saw, as rows of ``tune_telemetry`` and back.

It is large, and only read where a launch is to be explained: no list of launches has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.model import Telemetry, Track
from tuner.store import codec, schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def insert(connection: Connection, launch_id: int, telemetry: Telemetry | None) -> None:
    """Add the rows of a launch, where there is anything."""
    if telemetry is None:
        return
    rows: list[dict[str, Any]] = [
        {"host": None, "rank": None, "content": codec.dumps(replace(telemetry, tracks=()))}
    ]
    rows += [
        {"host": track.host, "rank": track.rank, "content": codec.dumps(track)}
        for track in telemetry.tracks
    ]
    for number, row in enumerate(rows):
        row |= {"launch_id": launch_id, "track": number}
    connection.execute(sa.insert(schema.telemetry), rows)


def select(connection: Connection, study_id: int, launch_number: int) -> Sequence[Any]:
    """The rows of a launch; none where nothing was recorded, or before there was such a table."""
    if not sa.inspect(connection).has_table(schema.telemetry.name):
        return ()
    table = schema.launches
    mine = (table.c.study_id == study_id, table.c.number == launch_number)
    query = sa.select(schema.telemetry).join(table).where(*mine)
    return connection.execute(query.order_by(schema.telemetry.c.track)).all()


def telemetry(rows: Sequence[Any]) -> Telemetry | None:
    """The inverse of :func:`insert`.

    Raises:
        ValueError, KeyError, TypeError: A row is of another program.
    """
    if not rows:
        return None
    rest, *others = rows
    tracks = tuple(codec.loads(Track, row.content) for row in others)
    return replace(codec.loads(Telemetry, rest.content), tracks=tracks)
