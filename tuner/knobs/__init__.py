"""The knobs that ``tune`` knows by itself: one row a knob.

A study file can give a knob another domain or route, and define knobs of its own.
"""

from __future__ import annotations

from typing import Literal

from tuner.knobs.table import KNOBS
from tuner.model import RANKS, Knob
from tuner.model.errors import UsageError, suggestion

__all__ = ["KNOBS", "ROLES", "Role", "is_known", "knob", "names"]

Role = Literal["ranks", "threads", "workers", "worker_threads"]

#: What a knob's number costs in cores: ranks x (threads + workers x worker threads).
ROLES: dict[str, Role] = {
    RANKS: "ranks",
    "omp_threads": "threads",
    "iterator_workers": "workers",
    "opencv_threads": "worker_threads",
}


def names() -> tuple[str, ...]:
    """Return the names of the known knobs, in the order of the table."""
    return tuple(knob.name for knob in KNOBS)


def is_known(name: str) -> bool:
    """Return whether the table has a knob of this name."""
    return name in names()


def knob(name: str) -> Knob:
    """Return the row of one knob; ``UsageError`` with the nearest name if there is none."""
    for row in KNOBS:
        if row.name == name:
            return row
    raise UsageError(f"there is no knob {name!r}", suggestion(name, names()))
