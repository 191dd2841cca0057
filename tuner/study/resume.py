"""Into a study: made anew, or taken up where it was left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuner.model import StudySpec, StudyState
from tuner.stats import estimates
from tuner.store.identity import identity, require_same
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.study import outputs as folders
from tuner.study.events import Event, Note, StudyStarted
from tuner.study.findings import build
from tuner.study.history import History, changes
from tuner.study.interference import REMEASURED
from tuner.study.interruption import Interruption
from tuner.study.journal import Journal
from tuner.study.policy import Policy
from tuner.study.projection import Projection
from tuner.study.recorder import adopt


@dataclass(frozen=True)
class StudyContext:
    """One call of :func:`tuner.study.tune`: what for, where, and who listens."""

    spec: StudySpec
    store: Store
    folder: Path
    emit: Callable[[Event], None]
    stop: Interruption
    course: Policy
    remeasure: bool = False


def remove(visit: StudyContext, projection: Projection) -> None:
    """Delete the study, readable or not, with the folders of its launches."""
    launches = visit.store.folders(visit.spec.name)
    projection.remove()  # first: what is ours must not outlive the proof that it is
    visit.store.remove(visit.spec.name)
    for left in folders.remove(launches, visit.folder):
        visit.emit(Note(f"the folders of earlier launches in {left} are left as they are"))
    folders.prepare(visit.folder)


def enter(visit: StudyContext, projection: Projection, row: StudyRow | None) -> History:
    """Create the study, or take it up where it was left."""
    spec, store = visit.spec, visit.store
    if row is None:
        projection.remove()
        store.create(spec)
        visit.emit(StudyStarted(spec, False, 0))
        return History(spec, ())
    require_same(spec.name, row.identity, identity(spec))
    return _take_up(visit, row)


def _take_up(visit: StudyContext, row: StudyRow) -> History:
    spec, store = visit.spec, visit.store
    adopt(store, journal_of(visit, row), visit.emit)
    if visit.remeasure:
        number = store.exclude(spec.name, REMEASURED)
        visit.emit(Note(f"{number} earlier launches are not counted any more (--remeasure)"))
    records = tuple(store.launches(spec.name, detail=False))
    forgiven = row.forgiven_until
    if row.state is StudyState.FAILED:
        # Nothing had worked, so the fault was not the settings': they get another chance.
        forgiven = max((record.number for record in records), default=0)
        store.forgive(spec.name, forgiven)
    plan = History(spec, records, forgiven)
    so_far = build(plan, visit.store.url, row.state, row.reason, visit.course.best(plan))
    visit.emit(StudyStarted(spec, True, measured(plan), so_far))
    for text in changes(row.spec, spec):
        visit.emit(Note(text))
    store.update_spec(spec)
    store.set_state(spec.name, StudyState.RUNNING, "")
    return plan


def journal_of(visit: StudyContext, row: StudyRow) -> Journal:
    """The records of the study's launches, beside the database."""
    return Journal(visit.folder, row.name, row.created_at, row.identity)


def measured(plan: History) -> int:
    """How many settings have a time so far."""
    pooled = estimates.measurements(plan.records, plan.pooling.canonical)
    return sum(measurement.elapsed_s is not None for measurement in pooled)
