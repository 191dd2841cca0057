"""Finds the job that ``--first-tune`` has tuned before, as fast as a job should start.

SQLAlchemy alone takes longer to import than that may take, so the database's driver reads one
attribute of Optuna's studies. Nothing is written: the database may be read-only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from tuner.model import JobFacts, TunedJob, codec
from tuner.store.urls import read_rows

#: The attribute of a study that holds its `TunedJob`.
TUNED_JOB = "tune:job"

_QUERY = (
    f"SELECT value_json FROM study_user_attributes WHERE key = '{TUNED_JOB}' ORDER BY study_id DESC"
)

#: How long the database may be locked, or a server take to answer: a job waits for it, s.
WAIT_S = 5.0


def nearest(
    job: JobFacts, storage: str | None, environ: Mapping[str, str]
) -> tuple[TunedJob, list[str]] | None:
    """Return the tuned job with the fewest differences, of several the newest, and the differences.

    ``None``: no job like this one was tuned, or there is no database yet. One that cannot be read
    is a ``TunerError``.
    """
    candidates = []
    for (text,) in read_rows(_QUERY, storage, environ, wait_s=WAIT_S):
        with suppress(ValueError, KeyError, TypeError, RecursionError):  # another version wrote it
            tuned = codec.from_json(TunedJob, json.loads(text))
            differences = job.differences(tuned.job)
            if differences == [] or (differences and tuned.is_finished):
                candidates.append((tuned, differences))
    return min(
        candidates,
        key=lambda row: (abs(row[0].job.ranks - job.ranks), len(row[1])),
        default=None,
    )
