"""Reads a stored study for the commands that show it or hand it over."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.model.errors import UsageError
from tuner.results import study_view
from tuner.results.study_view import StudyView

if TYPE_CHECKING:
    from tuner.store import Store


def open_store(storage: str | None) -> Store:
    """The database, which must exist; the errors are those of ``Store.open``."""
    from tuner.store import Store, resolve_url

    return Store.open(resolve_url(storage, os.environ), create=False)


def chosen(store: Store, study: str | None) -> str:
    """The study that was named, else the latest one.

    Raises:
        UsageError: There is no study yet.
    """
    from tuner.store import display_url

    if study is not None:
        return study
    for row in store.studies():
        return row.name
    raise UsageError(
        f"there is no study in {display_url(store.url)} yet",
        "`tune --mpi-procs 8 --trials 50` makes one",
    )


def watched(store: Store, data: StudyView) -> StudyView:
    """The same study as a page shows it.

    It has what was recorded of a launch of the best and one of the defaults; :func:`load` leaves
    that out: there is much of it, and it is of no use to the others. Its commands name the
    database so that they hold in every folder.
    """
    from tuner.results.explain.explained_runs import median_run
    from tuner.store.urls import place

    canonical = data.pooling.canonical
    medians = [median_run(data.records, side.setting, canonical) for side in data.sides]
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
    """All that is known of one study; the latest if none is named.

    ``detail=False`` leaves out what ``Store.launches`` then leaves out.
    """
    return study_view.load(store, chosen(store, study), detail=detail)
