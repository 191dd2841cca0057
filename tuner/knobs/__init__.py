"""The knobs that ``tune`` knows by itself: one row a knob.

A study file can give each another domain or route, and define knobs of its own.
"""

from __future__ import annotations

from typing import Literal

from tuner.knobs.table import KNOBS
from tuner.model import Knob, Value
from tuner.model.errors import UsageError, suggestion

__all__ = ["GUESSES", "KNOBS", "ROLES", "SHARE", "Role", "is_known", "knob", "names"]

Role = Literal["threads", "workers", "worker_threads"]

#: What a knob's number costs in cores on each rank: threads + workers x worker threads.
ROLES: dict[str, Role] = {
    "omp_threads": "threads",
    "iterator_workers": "workers",
    "opencv_threads": "worker_threads",
}

#: An even share of the cores for each rank.
SHARE = "share"

#: What is launched before anything is measured, the more likely first: values by role, and by
#: name. Threads and workers of a rank that is bound to one core would all share it.
GUESSES: tuple[dict[str, Value], ...] = (
    {"threads": SHARE, "workers": SHARE, "worker_threads": 1, "bind_to": "none"},
    {"threads": 1, "workers": 1, "worker_threads": 1, "bind_to": "none"},
)


def names() -> tuple[str, ...]:
    """The names of the known knobs, in the order of the table."""
    return tuple(knob.name for knob in KNOBS)


def is_known(name: str) -> bool:
    """True for a knob of the table."""
    return name in names()


def knob(name: str) -> Knob:
    """The row of one knob; ``UsageError`` with the nearest name if there is none."""
    for row in KNOBS:
        if row.name == name:
            return row
    raise UsageError(f"there is no knob {name!r}", suggestion(name, names()))
