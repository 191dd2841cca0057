"""A study from beginning to end: create or resume it, measure, say what was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGINT, Signals

from tuner.config.program import check_name
from tuner.hosts import lock, quiet
from tuner.launch.secrets import redact_spec
from tuner.live.measurement import Jobs, LiveMeasurement, TrialRunner
from tuner.model import Result, StudySpec, StudyState
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError
from tuner.stats import estimates
from tuner.store.identity import difference, identity, require_same
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.store.urls import place, resolve_url
from tuner.study import outputs as folders
from tuner.study.events import Event, Note, StudyEnded, StudyStarted
from tuner.study.findings import build, summary
from tuner.study.history import History, changes
from tuner.study.interference import COUNT, REMEASURED, VARIABLE, InterferenceFilter
from tuner.study.interruption import Interruption, StudyInterrupted
from tuner.study.optuna_trials import Projection
from tuner.study.policy import Policy, SearchThenConfirm, Stop
from tuner.study.recorder import Journal, Recorder, adopt
from tuner.study.session import Cancelled, Runner, Session


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


def tune(
    spec: StudySpec,
    *,
    storage: str | None = None,
    outputs: Path | None = None,
    fresh: bool = False,
    remeasure: bool = False,
    wait: bool = False,
    on_event: Callable[[Event], None] | None = None,
    run: TrialRunner | None = None,
    jobs: Jobs | None = None,
    course: Policy | None = None,
) -> Result:
    """Find the fastest setting of a command; nothing is printed.

    A study of that name is continued; a finished one only gives its result. One warm-up
    round goes before whatever is left to measure.

    Args:
        spec: What to tune.
        storage: The database: an SQLite file or a URL. Default: ``TUNE_STORAGE``, else
            ``studies/tune.db``.
        outputs: The folder for what launches write. Default: beside the SQLite file.
        fresh: Delete what the study has and begin anew.
        remeasure: Keep what the study has, but count none of its times any more.
        wait: Wait while another process measures on this host.
        on_event: Called with each :data:`tuner.study.events.Event`.
        run: Runs a launch; :func:`tuner.launch.trial.run` where not given.
        jobs: Measures settings in running jobs; where not given, none does beside a ``run``, else
            :class:`tuner.live.jobs.LiveJobs`.
        course: Says what comes next; search, then confirmation, where not given.

    Raises:
        UsageError: A name, database or folder that cannot be used, or a study that belongs
            to another command, rank count, MPI or machine.
        NothingMeasuredError: Nothing worked; ``LimitReachedError`` where only time was short.
        BusyError: The host or the database is in use.
        TunerError: The disk is full.
        StudyInterrupted: Ended by a signal (a ``KeyboardInterrupt``); what was measured is kept.
    """
    check_name(spec.name)
    url = resolve_url(storage, os.environ)
    folder = folders.study_folder(outputs, url, spec.name)
    with ExitStack() as stack:
        stop = stack.enter_context(Interruption())
        store = stack.enter_context(Store.open(url, create=True))
        emit = on_event or (lambda _: None)
        visit = StudyContext(
            spec, store, folder, emit, stop, course or SearchThenConfirm(), remeasure
        )
        if not (fresh or remeasure) and (found := _finished(visit)) is not None:
            return found
        folders.prepare(folder)
        try:
            with _alone(visit, wait=wait) as note:
                return _measure(visit, fresh, _making(visit, run, jobs, note), is_real=run is None)
        except StudyInterrupted:
            raise
        except KeyboardInterrupt as error:  # before the first launch
            raise StudyInterrupted(stop.signal_number or SIGINT, None) from error


def _alone(visit: StudyContext, *, wait: bool) -> AbstractContextManager[Path]:
    """While entered, nobody else measures on this host; gives the note for the trial in flight."""
    return lock.measuring(
        visit.spec.name,
        environ=os.environ,
        database=place(visit.store.url),
        wait=wait,
        on_wait=lambda owner: visit.emit(Note(f"waiting for {owner}")),
        cancelled=visit.stop,
    )


def _making(visit: StudyContext, run: TrialRunner | None, jobs: Jobs | None, note: Path) -> Runner:
    """How launches are made; ``note`` is for the one in flight."""
    if run is None:
        from tuner.hosts import process
        from tuner.launch import trial
        from tuner.live.jobs import LiveJobs

        start = partial(process.start, note=note)
        run = partial(trial.run, start=start)
        jobs = jobs or LiveJobs(start=start)
    return Runner(LiveMeasurement(run, jobs), visit.emit, visit.stop)


def _finished(visit: StudyContext) -> Result | None:
    """The result of a study that has nothing left to do, ``None`` for any other."""
    spec, store = visit.spec, visit.store
    row = store.find(spec.name)
    if row is None or row.state is not StudyState.FINISHED:
        return None
    require_same(spec.name, row.identity, identity(spec))
    plan = History(spec, tuple(store.launches(spec.name, detail=False)), row.forgiven_until)
    if changes(row.spec, spec) or not isinstance(visit.course.next(plan), Stop):
        return None
    if row.spec != redact_spec(spec, os.environ):  # the job of an export, for one
        store.update_spec(spec)
    found = build(plan, store.url, row.state, row.reason, visit.course.best(plan))
    visit.emit(StudyStarted(spec, True, measured(plan)))
    visit.emit(StudyEnded(found))
    return found


def _measure(visit: StudyContext, fresh: bool, making: Runner, *, is_real: bool) -> Result:
    """Enter the study and work on it; the host is ours, and looked at where it ``is_real``."""
    with closing(Projection(visit.store, visit.spec.name)) as projection, _left_in_order(visit):
        if fresh and visit.store.has(visit.spec.name):
            remove(visit, projection)
        return _worked_on(_session(visit, making, projection, is_real=is_real), visit)


def _session(
    visit: StudyContext, making: Runner, projection: Projection, *, is_real: bool
) -> Session:
    """Where the study stands, once everything of it agrees."""
    store, name = visit.store, visit.spec.name
    before = store.find(name)
    died = before is not None and before.state is StudyState.RUNNING
    plan = enter(visit, projection, before)
    plan = replace(plan, records=projection.reconcile(plan, thorough=died))
    journal = journal_of(visit, store.load(name))
    return Session(
        plan,
        store,
        Recorder(store, projection, journal, visit.emit, visit.spec.objective),
        visit.folder,
        making,
        visit.course,
        _quietness(visit) if is_real else InterferenceFilter(),
        held=visit.stop.held,
    )


def _worked_on(session: Session, visit: StudyContext) -> Result:
    """Measure until there is nothing left to do, and write down how it ended."""
    try:
        reason = session.measure()
    except (Cancelled, KeyboardInterrupt) as error:
        number = visit.stop.signal_number or SIGINT
        reason = f"interrupted by {Signals(number).name}"
        found = _close(session, StudyState.INTERRUPTED, reason)
        raise StudyInterrupted(number, found) from error
    except (NothingMeasuredError, LimitReachedError) as error:
        _close(session, StudyState.FAILED, error.message)
        raise
    except TunerError as error:
        with suppress(TunerError):  # the first error is the one to tell
            visit.store.set_state(visit.spec.name, StudyState.INTERRUPTED, error.message)
        raise
    return _close(session, StudyState.FINISHED, reason)


@contextmanager
def _left_in_order(visit: StudyContext) -> Iterator[None]:
    """While entered, whatever ends the work, the study is not left as running."""
    try:
        yield
    finally:
        with suppress(TunerError):  # what ended it is the error to tell
            row = visit.store.find(visit.spec.name)
            ours = row is not None and not difference(row.identity, identity(visit.spec))
            if row is not None and ours and row.state is StudyState.RUNNING:
                reason = f"broken off ({type(sys.exception()).__name__})"
                visit.store.set_state(row.name, StudyState.INTERRUPTED, reason)


def _quietness(visit: StudyContext) -> InterferenceFilter:
    """Look at the machine before anything is launched, and say what is amiss."""
    seen = quiet.before()
    note = quiet.complaint(seen, visit.spec.machine)
    if note:
        visit.emit(Note(note))
    return InterferenceFilter(seen.load, counts_all=os.environ.get(VARIABLE) == COUNT)


def _close(session: Session, state: StudyState, reason: str) -> Result:
    """Write down how it ended and say so."""
    found = session.result(state, reason)
    session.store.set_summary(session.spec.name, summary(found))
    session.store.set_state(session.spec.name, state, reason)
    session.emit(StudyEnded(found))
    return found
