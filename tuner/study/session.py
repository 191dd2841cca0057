"""One run over a study: launch, record, tell, until the policy says stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tuner.hosts import process
from tuner.launch import render, stacks
from tuner.launch.secrets import kept_record, recorded_environment
from tuner.live.consistency import drift, live_vs_cold, switched_off_notes
from tuner.live.measurement import LiveMeasurement, MeasurementRequest
from tuner.model import (
    FROM_OUTSIDE,
    Exclusion,
    Failed,
    FailureKind,
    Launch,
    LaunchRecord,
    Outcome,
    Purpose,
    Result,
    StudySpec,
    StudyState,
    wording,
)
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError
from tuner.stats import estimates
from tuner.store.failures import from_os_error
from tuner.store.rows import now
from tuner.study import outputs
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note
from tuner.study.findings import build, dropped_notes, inherited_note, summary
from tuner.study.history import GIVE_UP_AFTER, History
from tuner.study.interference import InterferenceFilter
from tuner.study.policy import Policy, Step, Stop
from tuner.study.recorder import Recorder

if TYPE_CHECKING:
    from tuner.store import Store

#: So many launches in a row that were ended from outside end the study: it would go on so.
LOST_IN_A_ROW = 3

_MENDED = ", mend the cause, then run the same command again."
_WITHOUT_LOG = (
    ": has the program done its work? --log NAME names another file below {out}; --objective wall"
    " needs no log, --objective 'pattern:REGEX' reads what is printed."
)


def give_up(failures: Sequence[LaunchRecord]) -> NoReturn:
    """End a study in which nothing works, or nothing but the defaults that are not asked for.

    Raises:
        LimitReachedError: All were over the time limit.
        NothingMeasuredError: Otherwise.
    """
    record, failed = next(
        (record, record.outcome.ending)
        for record in estimates.counted(failures)
        if isinstance(record.outcome.ending, Failed)
    )
    if all_over_the_limit(failures):
        raise LimitReachedError(
            f"nothing could be measured: each of {len(failures)} launches was over the"
            f" time limit ({failed.reason})",
            f"Give them more time with --trial-limit, or read {_told_in(record)}.",
        )
    raise NothingMeasuredError(
        f"nothing could be measured: {len(failures)} launches in a row failed, the first with"
        f" {failed.kind}: {failed.reason}",
        f"Read {_told_in(record)}{_WITHOUT_LOG if failed.kind is FailureKind.NO_LOG else _MENDED}",
    )


def all_over_the_limit(failures: Sequence[LaunchRecord]) -> bool:
    """True where a larger time limit may be all that is missing."""
    kinds = {getattr(record.outcome.ending, "kind", None) for record in failures}
    return kinds == {FailureKind.LIMIT}


def require_hope(lost: Sequence[LaunchRecord]) -> None:
    """End a study whose launches are ended from outside again and again.

    Args:
        lost: Those in a row that were, the latest last.

    Raises:
        TunerError: They are too many.
    """
    if len(lost) < LOST_IN_A_ROW:
        return
    ending = lost[-1].outcome.ending
    assert isinstance(ending, Failed)
    raise TunerError(
        f"{len(lost)} launches in a row were ended from outside, the last one as"
        f" {ending.kind}: {ending.reason}",
        f"Read {_told_in(lost[-1])}, mend the cause, then run the same command again: what was"
        " measured is kept.",
    )


def is_lost(record: LaunchRecord) -> bool:
    """True where the launch was ended from outside, and is to be made again."""
    ending = record.outcome.ending
    return isinstance(ending, Failed) and ending.kind in FROM_OUTSIDE


def require_space(record: LaunchRecord) -> None:
    """End the study where a launch found the disk full: the next one would too.

    Raises:
        TunerError: It did.
    """
    ending = record.outcome.ending
    if isinstance(ending, Failed) and ending.kind is FailureKind.DISK_FULL:
        raise TunerError(
            f"the disk is full, or its quota used up: launch {record.number} ended with"
            f" {ending.reason}",
            "Free some space, then run the same command again: what was measured is kept.",
        )


def _told_in(record: LaunchRecord) -> Path:
    """Where the launch's own files say most of its end: a hung one has printed nothing."""
    folder = Path(record.folder)
    hung = getattr(record.outcome.ending, "kind", None) is FailureKind.STALLED
    traces = folder / stacks.FOLDER
    return traces if hung and traces.is_dir() else folder / process.OUTPUT


@dataclass
class Runner:
    """Makes the launches of a study; ``asked`` says that a second signal broke one off."""

    live: LiveMeasurement
    emit: Callable[[Event], None]
    cancelled: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    asked: bool = False

    def outcome(self, number: int, launch: Launch, step: Step, plan: History) -> Outcome:
        """What the step comes to, measured live if it can be.

        Raises:
            TunerError: Its folder cannot be used, or a process cannot be ended.
        """
        best = estimates.best(estimates.measurements(plan.searched, plan.pooling.canonical))
        request = MeasurementRequest(
            number,
            launch,
            plan.spec,
            step.setting,
            purpose=step.purpose,
            records=plan.records,
            incumbent_s=None if best is None else best.elapsed_s,
            stopper=step.judge,
            on_progress=lambda progress: self.emit(LaunchProgress(number, progress)),
            cancelled=self.cancelled,
        )
        started_s = self.clock()
        try:
            return self.live.measure(request)
        except KeyboardInterrupt:  # asked twice; the launch has been ended
            self.asked = True
            failed = Failed(FailureKind.INTERRUPTED, "ended by the user")
            return Outcome(failed, wall_s=self.clock() - started_s, exit_code=None)
        except OSError as error:
            raise from_os_error(
                error,
                f"the output folder {launch.folder}",
                "Choose another place with --run-dir FOLDER.",
            ) from error


class Cancelled(Exception):  # noqa: N818 - not an error: the loop was asked to end
    """The running launch was interrupted; it is saved."""


@dataclass
class Session:
    """What a run over a study needs, and where it stands."""

    plan: History
    store: Store
    keeper: Recorder
    folder: Path
    making: Runner
    course: Policy
    quietness: InterferenceFilter = field(default_factory=InterferenceFilter)
    #: While entered, a launch is made and kept: nothing breaks it off in between.
    held: Callable[[], AbstractContextManager[None]] = nullcontext
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.emit, self.cancelled = self.making.emit, self.making.cancelled

    @property
    def spec(self) -> StudySpec:
        """What is asked for."""
        return self.plan.spec

    def result(self, state: StudyState, reason: str) -> Result:
        """Where the study stands."""
        return build(self.plan, self.store.url, state, reason, self.course.best(self.plan))

    def measure(self) -> str:
        """Launch until the course ends.

        Returns:
            Why it ended.

        Raises:
            Cancelled: The user ended it.
            NothingMeasuredError, LimitReachedError: There is no hope.
        """
        try:
            return self._measured()
        finally:
            with self.held():
                self.making.live.end()

    def _measured(self) -> str:
        warm = False
        while not isinstance(step := self._next(), Stop):
            if not warm:
                self._warm_up(step)
                warm = True
            self._note_what_is_new(step)
            self._launch(step)
            if len(self.plan.fruitless()) >= GIVE_UP_AFTER:
                break
        if self.result(StudyState.RUNNING, "").best is None:
            give_up(self.plan.fruitless() or self.plan.fruitless_trials())
        assert isinstance(step, Stop)
        self.plan = self.keeper.conclude(self.plan)
        return step.reason

    def _next(self) -> Step | Stop:
        """What comes next; before the end windows and launches must agree."""
        step = self.course.next(self.plan)
        if isinstance(step, Stop):
            found = live_vs_cold(self.plan.records, self.plan.pooling.canonical)
            if found is not None:
                self._exclude(found.numbers, found.exclusion)
                step = self.course.next(self.plan)
        return step

    def _exclude(self, numbers: Collection[int], why: Exclusion) -> None:
        """Count windows no more that cannot be trusted; what is running is not, either."""
        with self.held():
            self.making.live.end()
            self.plan = self.keeper.exclude(self.plan, numbers, why)
        self._say(f"{why.text}; {wording.count(len(numbers), 'window')} excluded")

    def _warm_up(self, step: Step) -> None:
        """Fill the caches: a cold one is not the fault of the setting that comes first.

        A new study warms up with what it launches first. A continued one does it once, with the
        best setting so far: the machine may have been started anew, and that one is the quickest.
        """
        best = self.course.best(self.plan)
        times = self.spec.warm_ups if best is None else min(1, self.spec.warm_ups)
        for _ in range(times):
            self._launch(Step(Purpose.WARM_UP, step.setting if best is None else best))

    def _note_what_is_new(self, step: Step) -> None:
        notes = [
            *dropped_notes(self.plan),
            *self.plan.pooling.notes,
            *switched_off_notes(self.plan.records),
        ]
        if step.purpose is Purpose.BASELINE:
            inherited = inherited_note(self.spec, dict(os.environ))
            notes += [inherited] if inherited else []
        for text in notes:
            self._say(text)

    def _say(self, text: str) -> None:
        """Tell the user something, once."""
        if text and text not in self._said:
            self._said.add(text)
            self.emit(Note(text))

    # --- one launch ------------------------------------------------------------------

    def _launch(self, step: Step) -> None:
        """Launch until something comes of it: what was ended from outside is made again."""
        lost: list[LaunchRecord] = []
        while not lost or is_lost(lost[-1]):
            require_hope(lost)
            if self.cancelled():
                raise Cancelled
            with self.held():
                record = self._once(step)
            if estimates.was_interrupted(record) and (self.making.asked or self.cancelled()):
                raise Cancelled
            require_space(record)
            self._say(self.making.live.note(self.spec, self.plan.records, os.environ))
            lost.append(record)
        changed = drift(self.spec, self.plan.records, self.plan.pooling.canonical)
        if changed is not None and changed.proven:
            self._exclude(changed.numbers, changed.exclusion)

    def _once(self, step: Step) -> LaunchRecord:
        number = max((record.number for record in self.plan.records), default=0) + 1
        record = self._run(number, step)
        try:
            return self._keep(record)
        except KeyboardInterrupt:  # asked twice: once more, whatever was written of it so far
            self.keeper.record(record)
            raise

    def _run(self, number: int, step: Step) -> LaunchRecord:
        purpose, setting = step.purpose, step.setting
        folder = outputs.launch_folder(self.folder, number)
        trial = self.plan.trials + 1 if purpose in estimates.TRIALS else None
        live = self.making.live.is_window(
            self.spec, self.plan.records, purpose, setting, os.environ
        )
        self.emit(LaunchStarted(number, purpose, setting, trial, self.plan.most_trials, live))
        cwd = Path(self.spec.folder or Path.cwd())
        launch = render.launch(self.spec, setting, folder, environ=os.environ, cwd=cwd)
        self.keeper.make_room(folder)
        started_at = now()
        outcome = self.making.outcome(number, launch, step, self.plan)
        record = LaunchRecord(
            number=number,
            purpose=purpose,
            setting=setting,
            argv=launch.argv,
            env=recorded_environment(os.environ),
            folder=str(folder),
            started_at=started_at,
            outcome=outcome,
            machine=self.spec.machine,
        )
        record, note = self.quietness.judged(record, self.spec, self.plan.records)
        if note:
            self.emit(Note(note))
        # Before anybody hears of it: the database, Optuna, the terminal.
        return kept_record(record, os.environ)

    def _keep(self, record: LaunchRecord) -> LaunchRecord:
        """Keep the launch; only then does anybody hear of it."""
        recorded = self.keeper.record(record)
        # Thousands of launches are planned with: what the sampler saw is for the database alone.
        light = replace(record, outcome=replace(record.outcome, telemetry=None))
        before, plan = self.plan, replace(self.plan, records=(*self.plan.records, light))
        best = self.course.best(plan)
        found = build(plan, self.store.url, StudyState.RUNNING, "", best)
        self.keeper.add(record, summary(found), recorded=recorded)
        self.plan = plan
        self.plan = self.keeper.tell(before, plan)
        self._report(self.plan.records[-1], found)
        return record

    def _report(self, record: LaunchRecord, found: Result) -> None:
        measurement = None
        if record in estimates.counted([record]):
            canonical = self.plan.pooling.canonical
            mine = canonical(record.setting)
            pooled = estimates.measurements(self.plan.records, canonical)
            measurement = next(m for m in pooled if m.setting == mine)
        is_best = (
            measurement is not None
            and found.best is not None
            and bool(record.outcome.samples)
            and found.best.setting == measurement.setting
        )
        self.emit(LaunchEnded(record, measurement, is_best))
