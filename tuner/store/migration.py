"""What older versions of ``tune`` wrote otherwise: rewritten when a database is opened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tuner.model import Exclusion, ExclusionKind
from tuner.store import codec, schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

#: Up to version 4 the column ``disturbed`` held a text alone: how each kind began or ended.
_TEXTS = (
    (r"measured anew \(--remeasure\)$", ExclusionKind.REMEASURED),
    (r"the running job drifted", ExclusionKind.JOB_DRIFTED),
    (r"live and cold disagree \((?P<knobs>[^)]*)\)", ExclusionKind.LIVE_DISAGREES),
    (r"(?s:.*); (.*: )?it is launched by itself$", ExclusionKind.AFTER_SWITCH),
    (r"only \d+ of \d+ ranks|its \d+ ranks do not come", ExclusionKind.RANKS_WAITED),
)


def exclusion(text: str) -> Exclusion:
    """The exclusion that a text of version 3 or 4 stands for."""
    for pattern, kind in _TEXTS:
        if found := re.match(pattern, text):
            knobs = found.groupdict().get("knobs")
            return Exclusion(kind, text, tuple(knobs.split(", ")) if knobs else ())
    return Exclusion(ExclusionKind.INTERFERENCE, text)


def migrate_exclusions(engine: Engine) -> None:
    """Fill the column ``exclusion`` from ``disturbed``, which versions 3 and 4 wrote."""
    table = schema.launches
    if "disturbed" not in {each["name"] for each in sa.inspect(engine).get_columns(table.name)}:
        return
    old = sa.text(f"SELECT id, disturbed FROM {table.name} WHERE disturbed IS NOT NULL")
    with engine.begin() as connection:
        for key, text in connection.execute(old).all():
            mine = sa.update(table).where(table.c.id == key, table.c.exclusion.is_(None))
            connection.execute(mine.values(exclusion=codec.dumps(exclusion(text))))
