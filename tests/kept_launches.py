"""Launches put into a database as a study that goes on takes up what it finds on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.model import LaunchRecord, StudySpec
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import SearchThenConfirm


def keep(store: Store, spec: StudySpec, records: Sequence[LaunchRecord]) -> None:
    """Add launches to a study of the store."""
    study = OptunaStudy(store, spec, SearchThenConfirm())
    study.take_up(History.judged(spec, records), records)
