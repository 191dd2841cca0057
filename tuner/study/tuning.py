"""A study from beginning to end: create or resume it, measure, return its result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGINT, Signals
from typing import TYPE_CHECKING

from tuner.config import program
from tuner.config.program import check_name
from tuner.hosts import interference, lock
from tuner.hosts.machine import this_machine
from tuner.launch.launchers.discovery import find
from tuner.launch.secrets import redact_spec, require_none_hidden
from tuner.live.measurement import LiveMeasurement, PairRunner, TrialRunner
from tuner.model import Exclusion, ExclusionKind, Launch, Result, StudySpec, StudyState
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError, UsageError
from tuner.store.identity import require_same
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.store.urls import display_url, place, resolve_url, sqlite_path
from tuner.study import lessons, optuna_plugins
from tuner.study import outputs as folders
from tuner.study.events import Event, Note, StudyEnded, StudyStarted
from tuner.study.findings import build, summary
from tuner.study.history import History
from tuner.study.interruption import Interruption, StudyInterrupted
from tuner.study.joining import JoinedStore, Joining
from tuner.study.journal import Journal
from tuner.study.loop import Cancelled, StudyContext, StudyRun
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import Policy, SearchThenConfirm, Stop
from tuner.study.study_hosts import StudyHosts

if TYPE_CHECKING:
    from tuner.hosts.remote.remote_hosts import Hosts
    from tuner.hosts.remote.trial_on_hosts import TrialOnHosts
    from tuner.live.jobs import LiveJobs


#: Why launches do not count that the user measures anew.
REMEASURED = Exclusion(ExclusionKind.REMEASURED, "measured anew (--remeasure)")

#: Why launches without a time do not count in a study that had failed, once it goes on.
FAILED_STUDY = Exclusion(ExclusionKind.REMEASURED, "the study had failed: launched anew")


def tune(
    spec: StudySpec,
    *,
    storage: str | None = None,
    outputs: Path | None = None,
    fresh: bool = False,
    remeasure: bool = False,
    wait: bool = False,
    joined: bool = False,
    limit_s: float = math.inf,
    on_event: Callable[[Event], None] | None = None,
    run: TrialRunner | None = None,
    jobs: LiveJobs | None = None,
    policy: Policy | None = None,
) -> Result:
    """Find the fastest setting of a command; nothing is printed.

    A study of that name is continued; a finished one only gives its result. ``fresh`` deletes what
    it has, ``remeasure`` keeps that but counts none of its times; ``joined`` measures a part of a
    search that another host began (:func:`to_join`). After ``limit_s`` the study is
    interrupted. The storage is an SQLite file or a URL (default: ``TUNE_STORAGE``, else
    ``studies/tune.db``), and launches write to ``outputs`` (default: beside the SQLite file). What
    launches, what measures in running jobs and what says what comes next can be replaced.

    Raises:
        UsageError: A name, database, folder, sampler, pruner or terminator that cannot be used, a
            study to learn from that has nothing to teach, or a study that belongs to another
            command, rank count, MPI or machine.
        NothingMeasuredError: Nothing worked; ``LimitReachedError`` if only time was short.
        BusyError: The host or the database is in use.
        TunerError: The disk is full.
        StudyInterrupted: Ended by a signal (a ``KeyboardInterrupt``); what was measured is kept.
    """
    check_name(spec.name)
    optuna_plugins.check(spec)
    url = resolve_url(storage, os.environ)
    folder = folders.study_folder(outputs, url, spec.name)
    if joined:  # the hosts may share a disk
        folder /= spec.machine.hostname
    with ExitStack() as stack:
        stop = stack.enter_context(Interruption(limit_s))
        emit = on_event or (lambda _: None)
        if joined:
            store: Store = stack.enter_context(JoinedStore.of(url, spec.machine.hostname))
            policy = Joining(store, lambda text: emit(Note(text)))
        else:
            store = stack.enter_context(Store.open(url, create=True))
        spec, news = lessons.with_lesson(spec, store, fresh=fresh)
        if news:
            emit(Note(news))
        context = StudyContext(
            spec, store, folder, emit, stop, policy or SearchThenConfirm(), remeasure
        )
        if not (fresh or remeasure) and (result := _finished(context)) is not None:
            return result
        folders.prepare(folder)
        if spec.input:
            emit(Note(f"rank 0 of each launch reads {spec.input} as its standard input"))

        try:
            with hold_hosts(context, run, jobs, wait=wait) as (context, live):
                is_real = run is None
                with open_study(context, live, fresh=fresh, is_real=is_real) as study_run:
                    return close(study_run, StudyState.FINISHED, study_run.measure())
        except StudyInterrupted:
            raise
        except KeyboardInterrupt as error:  # before the first launch
            raise StudyInterrupted(stop.signal_number or SIGINT, None) from error


@contextmanager
def hold_hosts(
    context: StudyContext, run: TrialRunner | None, jobs: LiveJobs | None, *, wait: bool
) -> Iterator[tuple[StudyContext, LiveMeasurement]]:
    """Hold this host and those that the study names: meanwhile nobody else measures there.

    It yields the context with the hosts, and what measures on them: by ``run`` if that is given.
    """
    spec, database = context.spec, place(context.store.url)

    def on_wait(why: str) -> None:
        context.emit(Note(f"waiting: {why}"))

    held_host = lock.measuring(
        spec.name,
        environ=os.environ,
        database=database,
        wait=wait,
        on_wait=on_wait,
        cancelled=context.stop,
    )
    with ExitStack() as stack:
        hosts = None
        if run is None and not spec.layout.is_local:
            from tuner.launch.start_agents import reach

            agents = reach(spec.launcher, spec.layout.hosts, os.environ, context.stop)
            hosts = stack.enter_context(closing(agents))
            study_hosts = StudyHosts(
                spec, spec.layout, hosts, lambda text: context.emit(Note(text)), context.stop
            )
            context = replace(context, marker=os.urandom(16).hex(), hosts=study_hosts)
            held_host = hosts.held(
                held_host,
                spec.name,
                database=database,
                marker=context.marker,
                lock_folder=os.environ.get(lock.LOCK_DIR_VARIABLE, ""),
                wait=wait,
                on_wait=on_wait,
                cancelled=context.stop,
            )
        note = stack.enter_context(held_host)  # of the launch in flight
        run_pair = None
        if run is None:
            run, run_pair, own_jobs = _runners(hosts, note)
            jobs = jobs or own_jobs
        yield context, LiveMeasurement(spec, run, jobs, run_pair)


def _runners(hosts: Hosts | None, note: Path) -> tuple[TrialRunner, PairRunner, LiveJobs]:
    """Return what makes launches, pairs and windows: on this host or on several."""
    from tuner.hosts import process
    from tuner.hosts.probe import LIVE, connections_folder, private_folder
    from tuner.hosts.remote.agent_start import probe_code
    from tuner.hosts.remote.hosts_observer import HostsObserver
    from tuner.hosts.remote.trial_on_hosts import TrialOnHosts
    from tuner.hosts.untrusted_files import make_folder
    from tuner.launch import side_by_side, trial
    from tuner.live.jobs import LiveJobs

    start = partial(process.start, note=note)
    if hosts is None:
        run_pair = partial(side_by_side.run, start=start)
        return partial(trial.run, start=start), run_pair, LiveJobs(start)
    hosts.place(probe_code())

    def start_on_hosts(launch: Launch) -> TrialOnHosts:
        folder = connections_folder(launch.folder)
        make_folder(folder)
        return TrialOnHosts(start(launch), hosts, folder)

    def publish(launch: Launch, text: str) -> None:
        marker = launch.env[process.MARKER]
        hosts.place({f"{private_folder(marker).name}/{LIVE}": text})

    observe = partial(HostsObserver, hosts)
    jobs = LiveJobs(start_on_hosts, observe, publish)
    run_pair = partial(side_by_side.run, start=start_on_hosts, observe=observe)
    return partial(trial.run, start=start_on_hosts, observe=observe), run_pair, jobs


def _finished(context: StudyContext) -> Result | None:
    """Return the result of a study that has nothing left to do, ``None`` for any other."""
    spec, store = context.spec, context.store
    row = store.find(spec.name)
    if row is None or row.state is not StudyState.FINISHED:
        return None
    require_same(spec, row.identity)
    history = History.judged(spec, store.launches(spec.name, detail=False))
    if not isinstance(context.policy.next(history), Stop):
        return None
    if row.spec != redact_spec(spec, os.environ):  # an option changed that needs no launch
        store.update_spec(spec)
    result = build(history, store.url, row.state, row.reason, context.policy.best(history))
    context.emit(StudyStarted(spec, resumed=True, measured=_settings_measured(history)))
    context.emit(StudyEnded(result))
    return result


@contextmanager
def open_study(
    context: StudyContext, live: LiveMeasurement, *, fresh: bool = False, is_real: bool = True
) -> Iterator[StudyRun]:
    """Create or resume a study; whatever ends the work on it, it is not left as running.

    This process holds the host. If launches are real, a note says first what else runs on it.
    """
    store, spec, name = context.store, context.spec, context.spec.name
    if fresh and store.has(name):
        for text in _delete(store, context.folder, name):
            context.emit(Note(text))
        folders.prepare(context.folder)
    stored = store.find(name)
    if stored is not None:
        # A program that was mended before anything was measured is no other one.
        is_new = not any(r.outcome.samples for r in store.launches(name, detail=False))
        require_same(replace(spec, same_program=is_new or spec.same_program), stored.identity)
    try:
        optuna_study = OptunaStudy(store, spec, context.policy, folder=context.folder)
        if stored is None:
            row = store.create(spec)
            journal = Journal(context.folder, name, row.created_at)
            context.emit(StudyStarted(spec, resumed=False, measured=0))
            optuna_study.take_up(History.judged(spec, ()))
            history = optuna_study.history()
        else:
            journal = Journal(context.folder, name, stored.created_at)
            history = _resume(context, stored, optuna_study, journal)
        if is_real and (note := interference.complaint(interference.load_now(), spec.machine)):
            context.emit(Note(note))
        run = StudyRun(context, history, optuna_study, journal, live)
        try:
            yield run
        except (Cancelled, KeyboardInterrupt) as error:
            number = context.stop.signal_number or SIGINT
            reason = f"interrupted by {Signals(number).name}"
            result = close(run, StudyState.INTERRUPTED, reason)
            raise StudyInterrupted(number, result) from error
        except (NothingMeasuredError, LimitReachedError) as error:
            close(run, StudyState.FAILED, error.message)
            raise
    except BaseException as error:
        with suppress(TunerError):  # the first error is the one to tell
            stored = store.find(name)
            if stored is not None and stored.state is StudyState.RUNNING:
                is_closed = isinstance(error, BrokenPipeError)
                text = "the output was closed" if is_closed else type(error).__name__
                reason = error.message if isinstance(error, TunerError) else text
                store.set_state(name, StudyState.INTERRUPTED, reason)
        raise


def _resume(
    context: StudyContext, row: StudyRow, optuna_study: OptunaStudy, journal: Journal
) -> History:
    """Take a stored study up, with the launches that only the journal has; return its history."""
    spec, store = context.spec, context.store
    stored = store.launches(spec.name, detail=False)
    missing = journal.missing(stored, context.emit)
    records = (*stored, *missing)
    optuna_study.take_up(History.judged(spec, records), missing)
    if context.remeasure:
        counted = [record.number for record in records if not record.outcome.exclusion]
        store.exclude(spec.name, REMEASURED, counted)
        text = f"{len(counted)} earlier launches are not counted any more (--remeasure)"
        context.emit(Note(text))
    history = optuna_study.history()
    if row.state is StudyState.FAILED:
        # Where nothing worked, or works any more, the fault was not the settings'.
        failures = history.failures_since_it_worked() or history.fruitless_launches
        history = optuna_study.exclude([record.number for record in failures], FAILED_STUDY)
    so_far = build(history, store.url, row.state, row.reason, context.policy.best(history))
    context.emit(StudyStarted(spec, True, _settings_measured(history), so_far))
    store.update_spec(spec)
    store.set_state(spec.name, StudyState.RUNNING, "")
    return history


def delete(store: Store, name: str, outputs: Path | None = None) -> list[str]:
    """Delete a study, readable or not, with its trials and the folders of its launches.

    A sentence is returned for each folder that is left as it is. It is a `UsageError` if there is
    no such study, and a `BusyError` while a process measures on this host.
    """
    with lock.measuring(name, environ=os.environ):
        if not store.has(name):
            store.load(name)  # raises the error that there is none
        return _delete(store, folders.study_folder(outputs, store.url, name), name)


def _delete(store: Store, folder: Path, name: str) -> list[str]:
    launches = store.folders(name)
    store.remove(name)
    left = folders.remove(launches, folder)
    return [f"the folders of earlier launches in {path} are left as they are" for path in left]


def to_join(url: str, name: str) -> StudySpec:
    """Return the stored study as this host measures it for the one that began it: in launches.

    It is a `UsageError` if there is no such study, or no other host can reach it.
    """
    if sqlite_path(url) is not None:
        raise UsageError(
            f"--join {name}: another host cannot share the SQLite file {display_url(url)}",
            "keep the study on a server: --storage postgresql://USER@HOST/DATABASE",
        )
    with Store.open(url, create=False) as store:
        spec = store.load(name).spec
    return replace(runnable(spec, f"--join {name}"), machine=this_machine(), live="off")


def runnable(spec: StudySpec, option: str) -> StudySpec:
    """Return a stored study with the launcher as it is here now; ``option`` asks for it.

    It is a `UsageError` if its command hides a secret, or this host lacks its program or mpirun.
    """
    stored = spec.launcher
    require_none_hidden(spec, option)
    program.check(spec.command, environ=os.environ, cwd=Path(spec.folder or Path.cwd()))
    launcher = find(stored.mpirun, stored.extra_args, kind=stored.kind, environ=os.environ)
    return replace(spec, launcher=replace(launcher, ssh=stored.ssh, carrier=stored.carrier))


def _settings_measured(history: History) -> int:
    """Return how many settings have a time so far."""
    return sum(m.elapsed_s is not None for m in history.measurements.values())


def close(run: StudyRun, state: StudyState, reason: str) -> Result:
    """Store the state and the result of a study, say that it ended, and return the result."""
    result, store, name = run.result(state, reason), run.context.store, run.spec.name
    store.set_summary(name, summary(result))
    store.set_state(name, state, reason)
    run.context.emit(StudyEnded(result))
    return result
