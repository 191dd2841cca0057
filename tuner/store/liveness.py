"""Whether a study that is written down as running really is: its process may be gone."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TypeVar

from tuner.hosts import lock
from tuner.model import JsonDict, StudyState
from tuner.store.rows import StudyRow, StudySummary
from tuner.store.urls import place

Row = TypeVar("Row", StudyRow, StudySummary)

GONE = "the process that measured it is gone"


def as_it_is(found: Row, identity: JsonDict, url: str) -> Row:
    """The study as interrupted where nothing alive measures it any more.

    A process that was killed writes nothing down; but its lock on this host went with it. Of
    other hosts nothing can be said, so what is written stands. Nor does it change for the
    process that holds the lock itself.
    """
    if found.state is not StudyState.RUNNING or identity.get("hostname") != socket.gethostname():
        return found
    if lock.may_measure(found.name, database=place(url), environ=os.environ):
        return found
    return replace(found, state=StudyState.INTERRUPTED, reason=GONE)
