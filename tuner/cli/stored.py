"""Reads a stored study for the commands that show it or hand it over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tuner.errors import UsageError
from tuner.exporters import ExportInput

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

    name = study or store.latest()
    if name is None:
        raise UsageError(
            f"there is no study in {display_url(store.url)} yet",
            "`tune --mpi-procs 8 --trials 50` makes one",
        )
    return name


def load(store: Store, study: str | None, *, detail: bool = True) -> ExportInput:
    """All that is known of one study; the latest where none is named.

    ``detail=False`` leaves out what ``Store.launches`` then leaves out.
    """
    from tuner.study.findings import build
    from tuner.study.plan import Plan

    row = store.load(chosen(store, study))
    plan = Plan(row.spec, tuple(store.launches(row.name, detail=detail)), row.forgiven_until)
    found = build(plan, store.url, row.state, row.reason, row.best)
    return ExportInput(row.spec, found, plan.records, plan.pooling)
