"""Reads a stored study for the commands that show it or hand it over."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tuner.model.errors import UsageError
from tuner.results import study_view
from tuner.results.study_view import StudyView

if TYPE_CHECKING:
    from tuner.store.store import Store


def open_store(storage: str | None) -> Store:
    """Open the database, which must exist, until the command ends.

    The errors are those of ``Store.open``.
    """
    from tuner.store.store import Store
    from tuner.store.urls import resolve_url

    store = Store.open(resolve_url(storage, os.environ), create=False)
    return click.get_current_context().with_resource(store)


def name_of(store: Store, study: str | None) -> str:
    """Return ``study``, or the name of the latest study if it is ``None``."""
    from tuner.store.urls import display_url

    if study is not None:
        return study
    for row in store.studies():
        return row.name
    raise UsageError(
        f"there is no study in {display_url(store.url)} yet",
        "`tune --mpi-procs 8 --trials 50` makes one",
    )


def with_telemetry(store: Store, data: StudyView) -> StudyView:
    """Return the study with what a page shows beside its launches.

    It has the telemetry of a launch of the best setting and one of the defaults, which :func:`load`
    leaves out, and its commands name the database so that they hold in every folder.
    """
    from tuner.results.explain.explained_runs import median_run
    from tuner.store.urls import place

    medians = [median_run(data.records, side.setting) for side in data.sides]
    telemetry = {
        record.number: store.telemetry(data.spec.name, record.number)
        for record in medians
        if record is not None
    }
    records = tuple(
        replace(r, outcome=replace(r.outcome, telemetry=telemetry.get(r.number)))
        for r in data.records
    )
    return replace(data, records=records, result=replace(data.result, storage=place(store.url)))


def load(store: Store, study: str | None, *, detail: bool = True) -> StudyView:
    """Load one study, the latest if none is named; ``detail`` is that of ``Store.launches``."""
    return study_view.load(store, name_of(store, study), detail=detail)
