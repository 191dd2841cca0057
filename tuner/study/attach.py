"""Optuna's side of a study for those who show it: the dashboard's storage and study."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager

import optuna
from optuna.storages import RDBStorage

from tuner.store.database import BUSY_S, engine_options
from tuner.store.failures import translated


def translating(url: str) -> AbstractContextManager[None]:
    """While entered, what Optuna and the database complain about is one error for the user."""
    return translated(url, optuna.exceptions.OptunaError)


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage in a database of ours; raises what the store raises."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Optuna fills in "{SCHEMA_VERSION}": braces of the path must not be taken for it.
    escaped = url.replace("{", "{{").replace("}", "}}")
    with translating(url):
        return RDBStorage(escaped, engine_options(url, BUSY_S))


def name_metric(study: optuna.Study, name: str) -> None:
    """Say what the study's values are, instead of "Objective 0"."""
    if study.metric_names != [name]:
        with warnings.catch_warnings():
            # The method is marked experimental; nothing but the label depends on it.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([name])


def load(storage: RDBStorage, name: str) -> optuna.Study | None:
    """The study of that name; ``None`` before its first trial was told."""
    try:
        return optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return None
