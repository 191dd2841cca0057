"""Finds the job that ``--first-tune`` has tuned before, as fast as a job should start.

SQLAlchemy takes longer to import than that may take, so a driver reads the one attribute that
counts of Optuna's studies. Nothing is written: the database may be read-only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from tuner.model import JobFacts, LineChange, TunedJob, codec
from tuner.store.urls import rows_at_once

#: The attribute of a study that holds its `TunedJob`.
TUNED_JOB = "tune:job"

_QUERY = (
    f"SELECT value_json FROM study_user_attributes WHERE key = '{TUNED_JOB}' ORDER BY study_id DESC"
)


def nearest(
    job: JobFacts, storage: str | None, environ: Mapping[str, str]
) -> tuple[TunedJob, list[str]] | None:
    """Return the tuned job with the fewest differences, of several the newest, and the differences.

    ``None``: no job like this one was tuned, or the database cannot be read.
    """
    candidates = []
    for (text,) in rows_at_once(_QUERY, storage, environ):
        with suppress(ValueError, KeyError, TypeError, RecursionError):  # another version wrote it
            tuned = codec.from_json(TunedJob, json.loads(text))
            differences = job.differences(tuned.job)
            # Of a job like this one a change may help here, too; that it had none says nothing.
            if differences == [] or (differences and tuned.change != LineChange()):
                candidates.append((tuned, differences))
    return min(
        candidates,
        key=lambda row: (abs(row[0].job.ranks - job.ranks), len(row[1])),
        default=None,
    )
