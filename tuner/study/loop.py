"""One run over a study: ask, measure, tell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from tuner.hosts import process, stacks
from tuner.hosts.supervisor.cleanup import marker_of_launch
from tuner.launch import render
from tuner.launch.request import MeasurementRequest
from tuner.launch.secrets import kept_record, recorded_environment
from tuner.live.eligibility import live_vs_cold
from tuner.live.measurement import LiveMeasurement
from tuner.model import (
    FROM_OUTSIDE,
    LOGGED_TIME,
    Failed,
    FailureKind,
    Finding,
    LaunchRecord,
    ObjectiveSpec,
    Outcome,
    Progress,
    Purpose,
    Result,
    Stopped,
    StudySpec,
    StudyState,
    figures,
    wording,
)
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError
from tuner.search import Done
from tuner.stats import estimates
from tuner.store.rows import now
from tuner.store.store import Store
from tuner.study import believed_figures, doubts, outputs, pairing, stopping_rules
from tuner.study.confirmation import COST_SHARE, confirmation
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note
from tuner.study.findings import build, early_notes, inherited_note, summary
from tuner.study.history import History
from tuner.study.hosts_there import HostsThere
from tuner.study.interruption import Interruption
from tuner.study.journal import RECORD_FILE, Journal
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import Policy, Step, Stop
from tuner.study.running_trial import PrunerStopper, RunningTrial

#: This many launches in a row that were ended from outside end the study: more would follow.
LOST_IN_A_ROW = 3

#: How often a host that waits for others looks again, s.
LOOK_S = 0.5

#: What to do if nothing works, behind "read FILE".
_USUAL_ADVICE = (
    ": it shows how the first one ended. Start the program by itself until it runs (with --dry-run"
    " the same command prints how it is launched); then the same command goes on"
)
_ADVICE = {
    FailureKind.NO_LOG: (
        ": has the program done its work? --log NAME names another file below {out}; --objective"
        " wall needs no log, --objective 'pattern:REGEX' reads what is printed"
    ),
    FailureKind.CUT_FIGURE: ": the pattern has to read the whole number; then run it with --fresh",
    FailureKind.DOUBTED_FIGURE: ": does the objective read what is to be compared?",
}


class Cancelled(Exception):  # noqa: N818 - not an error: the user ended the session
    """The running launch was interrupted; it is saved."""


@dataclass(frozen=True)
class StudyContext:
    """What one call of :func:`tuner.study.tune` is for, where it keeps things, and who listens."""

    spec: StudySpec
    store: Store
    folder: Path
    emit: Callable[[Event], None]
    stop: Interruption
    policy: Policy
    remeasure: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)  # what launches inherit
    marker: str = ""  # the study's, if launches run on several hosts
    hosts: HostsThere | None = None  # these


@dataclass
class StudyRun:
    """One run over a study, and where the study stands."""

    context: StudyContext
    history: History
    study: OptunaStudy
    journal: Journal
    live: LiveMeasurement
    _lost: int = 0  # launches in a row that were ended from outside
    _said: set[str] = field(default_factory=set)

    @property
    def spec(self) -> StudySpec:
        """What was asked for."""
        return self.history.spec

    def result(self, state: StudyState, reason: str) -> Result:
        """Return what the study has come to so far."""
        best = self.context.policy.best(self.history)
        return build(self.history, self.context.store.url, state, reason, best)

    def measure(self) -> str:
        """Ask, measure, tell: until the search is over, and the best is compared.

        Returns:
            Why it ended.

        Raises:
            Cancelled: The user ended it.
            NothingMeasuredError, LimitReachedError: Nothing works.
        """
        try:
            self.warm_up()
            while isinstance(step := self._next(), Step):
                self._tell_what_is_new(step)
                if trials := self.ask(step):  # else another host measures it
                    launch_together([(self, trial) for trial in trials])
                if self.history.is_hopeless:
                    give_up(self.history.fruitless(), objective=self.spec.objective)
                if broken := self.history.no_longer_works():
                    give_up(broken, "the program no longer works")
            if self.result(StudyState.RUNNING, "").candidate is None:
                failures = self.history.fruitless() or self.history.fruitless_trials()
                give_up(failures, objective=self.spec.objective)
            return step.reason
        finally:
            with self.context.stop.held():
                self.live.end()

    def _next(self) -> Step | Stop:
        """Return what comes next; windows that launches contradict are excluded before."""
        self.history = self.study.history()
        why = live_vs_cold(self.history.records, self.history.pooling.canonical)
        if why is not None:
            windows = [r.number for r in estimates.counted(self.history.records) if r.job]
            with self.context.stop.held():
                self.live.end()
                self.history = self.study.exclude(windows, why)
            self._say(f"{why.text}; {wording.count(len(windows), 'window')} excluded")
        return self._next_once_others_are_done()

    def _next_once_others_are_done(self) -> Step | Stop:
        """Return what the policy says once no other host measures a part of a search that ends."""
        while True:
            step = self._next_by_policy()
            is_over = isinstance(step, Stop) or step.purpose.stage.follows_search
            if not is_over or not self.history.pending:
                return step
            if self.context.stop():
                raise Cancelled
            self._say("waiting for the launches of the other hosts")
            time.sleep(LOOK_S)
            self.history = self.study.history()

    def _next_by_policy(self) -> Step | Stop:
        """Return what the policy says, unless another terminator ends the search before."""
        policy, history = self.context.policy, self.history
        step = policy.search(history)
        if isinstance(step, Step) and self.study.is_terminated():
            step = Done("terminated")
        return step if isinstance(step, Step) else policy.then(history, step)

    def warm_up(self) -> None:
        """Fill the caches: a cold one is not the fault of the setting that comes first.

        A new study warms up with what it launches first; that shows which knobs the program has. A
        resumed one does it once, with the best setting so far: the machine may have been started
        anew, and that one is the quickest.
        """
        step = self._next()
        if isinstance(step, Stop):
            return
        best = self.context.policy.best(self.history)
        times = self.spec.warm_ups if best is None else min(1, self.spec.warm_ups)
        warmed_up = 0
        while warmed_up < times:
            setting = step.setting if best is None else best
            trials = self.ask(Step(Purpose.WARM_UP, setting))
            launch_together([(self, trial) for trial in trials])
            warmed_up += self._lost == 0

    def _tell_what_is_new(self, step: Step) -> None:
        """Say what the launches have shown, each thing once; refuse to search for a low rate."""
        history = self.history
        believed_figures.check_direction(history.records, history.spec.objective)
        for text in early_notes(history):
            self._say(text)
        if step.purpose is Purpose.CONFIRM:
            self._say_of_comparison()
        if step.purpose is Purpose.BASELINE:
            self._say(inherited_note(self.spec, dict(os.environ)) or "")

    def _say_of_comparison(self) -> None:
        """Say why launches are compared in turn, and warn if that takes more than the budget."""
        budget_s, best = self.spec.budget_s, self.context.policy.best(self.history)
        standing = None if best is None else confirmation(self.history, best)
        if standing is None:
            return
        if standing.why_in_turn:
            self._say(f"compared in turn, not side by side: {standing.why_in_turn}")
        left_s = None if self.history.confirming else standing.left_s
        if budget_s is not None and left_s is not None and left_s > COST_SHARE * budget_s:
            self._say(
                f"the comparison with your defaults takes about {wording.duration(left_s)}, beyond"
                f" the budget of {wording.duration(budget_s)}: --confirm none ends the study"
                " without it"
            )

    def _say(self, text: str) -> None:
        """Tell the user something, once."""
        if text and text not in self._said:
            self._said.add(text)
            self.context.emit(Note(text))

    # --- one step ---------------------------------------------------------------------

    def ask(self, step: Step) -> list[RunningTrial]:
        """Return the trial of the step, or both; none if another host measures the same."""
        if self.context.stop():
            raise Cancelled
        if (there := self.context.hosts) is not None and there.hosts.lost():
            self.live.end()  # the running job has lost its host
            there.replace_lost()
        trial = self.study.ask(self.history, step)
        if trial is not None and trial.redrawn:
            often = wording.count(trial.redrawn, "suggestion")
            self.context.emit(
                Note(f"{often} of {self.spec.sampler} not launched: known, or ruled out")
            )
        if trial is None or step.beside is None:
            return [] if trial is None else [trial]
        other = self.study.ask(self.history, Step(step.purpose, step.beside))
        assert other is not None  # it is of the comparison
        return [trial, other]

    def _count_lost(self, record: LaunchRecord) -> None:
        """End the study if too many launches in a row were ended from outside, or the disk is full.

        Raises:
            TunerError: That is so.
        """
        if record.outcome.exclusion is not None:
            return
        ending = record.outcome.ending
        if not isinstance(ending, Failed) or ending.kind not in FROM_OUTSIDE:
            self._lost = 0
            return
        if ending.kind is FailureKind.DISK_FULL:
            raise TunerError(
                f"the disk is full, or its quota used up: launch {record.number} ended with"
                f" {ending.reason}",
                "free some space, then run the same command again: what was measured is kept",
            )
        self._lost += 1
        if self._lost == LOST_IN_A_ROW:
            raise TunerError(
                f"{self._lost} launches in a row were ended from outside, the last one as"
                f" {ending.kind}: {ending.reason}",
                f"read {_where_to_read(record)}: did a batch system, a user or the kernel end"
                " them, or is a host gone? Then the same command goes on: what was measured is"
                " kept",
            )

    def _record(
        self, trial: RunningTrial, request: MeasurementRequest, outcome: Outcome, started_at: str
    ) -> LaunchRecord:
        """Return the record of a launch, which nothing has kept yet."""
        record = LaunchRecord(
            number=trial.launch,
            purpose=request.purpose,
            setting=request.setting,
            argv=request.launch.argv,
            env=recorded_environment(self.context.environ),
            folder=str(request.launch.folder),
            started_at=started_at,
            outcome=outcome,
            machine=request.spec.machine,
        )
        if request.purpose is Purpose.WARM_UP and not self.history.records:
            for text in doubts.of_first_launch(outcome, request.launch, request.spec.objective):
                self._say(text)
        # Before anybody hears of it: the database, Optuna, the terminal.
        return kept_record(record, request.launch.env)

    def _request(self, trial: RunningTrial, beside: int | None) -> MeasurementRequest:
        """Say that a launch begins, and return what it is to measure."""
        spec, step, number, history = self.spec, trial.step, trial.launch, self.history
        if self.context.hosts is not None:
            spec = replace(spec, layout=self.context.hosts.layout)
        purpose = step.purpose
        folder = outputs.launch_folder(self.context.folder, number)
        counted = history.trials + 1 if purpose.stage.counts_as_trial else None
        live = self.live.is_window(history.records, purpose, step.setting)
        self.context.emit(
            LaunchStarted(number, purpose, step.setting, counted, history.most_trials, live, beside)
        )
        cwd = Path(spec.folder or Path.cwd())
        study = self.context.marker
        marker = marker_of_launch(study, number) if study else None
        launch = render.launch(
            spec, step.setting, folder, environ=self.context.environ, cwd=cwd, marker=marker
        )
        self._make_room(folder)

        def cancelled() -> bool:
            trial.beat()
            return self.context.stop()

        def on_progress(progress: Progress) -> None:
            self.context.emit(LaunchProgress(trial.launch, progress))
            trial.report(progress)

        race = self.context.policy.race(history, step.purpose, step.setting)
        by_pruner = PrunerStopper(trial, race)
        launched = stopping_rules.NextLaunch(step.purpose, step.setting, history, by_pruner)
        best = estimates.best(estimates.measurements(history.searched, history.pooling.canonical))
        return MeasurementRequest(
            launch,
            spec,
            step.setting,
            number=trial.launch,
            purpose=step.purpose,
            records=history.records,
            incumbent_s=None if best is None else best.elapsed_s,
            expected_iterations=history.expected_iterations(step.setting),
            stopper=stopping_rules.stopper(launched),
            on_progress=on_progress,
            cancelled=cancelled,
        )

    def _make_room(self, folder: Path) -> None:
        """Make sure, before a launch, that it can be kept.

        Raises:
            TunerError: The database is gone, locked, read-only or corrupt, or the disk is full.
        """
        self.context.store.require_usable(self.spec.name)
        try:
            self.journal.reserve(folder)
        except OSError as error:
            raise outputs.not_written(f"the output folder {folder}", error) from error

    def _write_down(self, record: LaunchRecord) -> bool:
        """Put the launch's own file on the disk; False if it cannot be written."""
        try:
            self.journal.write(record)
        except OSError as error:
            text = f"{Path(record.folder) / RECORD_FILE} cannot be written: {error.strerror}"
            self.context.emit(Note(f"{text}; launch {record.number} goes to the database alone"))
            return False
        return True

    def _tell(self, trial: RunningTrial, record: LaunchRecord) -> None:
        """Keep the launch: its file, its trial. Only then does anybody hear of it."""
        is_written, before = self._write_down(record), self.history
        try:
            self.history = history = self.study.tell(trial, record)
        except TunerError as error:
            error.hint += _what_became_of(record, before.spec.objective, is_written=is_written)
            raise
        iterations = before.expected_iterations(record.setting)
        if iterations not in (None, history.expected_iterations(record.setting)):
            text = f"launch {record.number} is the longest: shorter ones stopped early"
            self.context.emit(Note(text))
        result = self.result(StudyState.RUNNING, "")
        self.context.store.set_summary(self.spec.name, summary(result))
        kept = next(r for r in history.records if r.number == record.number)
        measurement = None
        if estimates.counted([kept]):
            measurement = history.measurements[history.pooling.canonical(kept.setting)]
        best = None if result.best is None else result.best.setting
        is_best = measurement is not None and measurement.setting == best
        is_best = is_best and bool(kept.outcome.samples)
        is_compared = kept.purpose is Purpose.CONFIRM
        so_far = self._shown_by_pairs() if is_compared else None
        self.context.emit(LaunchEnded(kept, measurement, is_best, result.confirm_left_s, so_far))

    def _shown_by_pairs(self) -> Finding | None:
        """Return what the pairs of the comparison show so far; ``None``: there is none."""
        best = self.context.policy.best(self.history)
        standing = None if best is None else confirmation(self.history, best)
        if standing is None or standing.reference is None:
            return None
        compared = standing.best, standing.reference
        is_in_turn = self.history.records[-1].outcome.side_by_side is None
        ratios = pairing.ratios(self.history, *compared, in_turn=is_in_turn)
        return ratios.judge(self.spec.precision, is_last=True)


def launch_together(trials: Sequence[tuple[StudyRun, RunningTrial]]) -> list[LaunchRecord]:
    """Launch the setting of a trial, or of two side by side; put down what came of it.

    A launch that was ended from outside says nothing of its setting: it is next again.

    Args:
        trials: One, or two, of one study or of two that stop together; each with its study.

    Raises:
        Cancelled: The user has ended it; the records are kept.
        TunerError: Too many launches in a row were ended from outside, or nothing can be kept.
    """
    first = trials[0][0]
    stop, is_broken_off = first.context.stop, False
    with stop.held():
        try:
            besides = (None, trials[0][1].launch)
            trials_beside = list(zip(trials, besides, strict=False))
            requests = [run._request(trial, beside) for (run, trial), beside in trials_beside]
            started_at = now()
            outcomes, is_broken_off = _outcomes(first.live, requests)
            together = zip(trials, requests, outcomes, strict=True)
            records = [
                run._record(trial, request, outcome, started_at)
                for (run, trial), request, outcome in together
            ]
        except TunerError as error:
            for run, trial in trials:
                run.study.fail(trial, error.message)
            raise
        if len(records) == 2:
            records = pairing.judged(records, [run.history for run, _ in trials])
        try:
            for (run, trial), record in zip(trials, records, strict=True):
                run._tell(trial, record)
        except KeyboardInterrupt:  # the second signal: once more, whatever was written
            for (run, _), record in zip(trials, records, strict=True):
                run._write_down(record)
            raise
    if any(map(estimates.was_interrupted, records)) and (is_broken_off or stop()):
        raise Cancelled
    first.live.require_live(first.history.records)
    first._say(first.live.note(first.history.records))
    for (run, _), record in zip(trials, records, strict=True):
        run._count_lost(record)
    return records


def _outcomes(
    live: LiveMeasurement, requests: Sequence[MeasurementRequest]
) -> tuple[list[Outcome], bool]:
    """Measure one setting, or two side by side; and say whether a second signal ended that."""
    started_s = time.monotonic()
    try:
        if len(requests) == 1:
            return [live.measure(requests[0])], False
        return live.measure_side_by_side(requests), False
    except KeyboardInterrupt:  # what was launched has been ended
        failed = Failed(FailureKind.INTERRUPTED, "ended by the user")
        wall_s = time.monotonic() - started_s
        return [Outcome(failed, wall_s=wall_s, exit_code=None) for _ in requests], True
    except OSError as error:
        folder = requests[0].launch.folder
        raise outputs.not_written(f"the output folder {folder}", error) from error


def give_up(
    failures: Sequence[LaunchRecord],
    what: str = "nothing could be measured",
    objective: ObjectiveSpec = LOGGED_TIME,
) -> NoReturn:
    """Raise what ends a study in which nothing works, or nothing but the baseline.

    Raises:
        LimitReachedError: All were over the time limit, or were stopped.
        NothingMeasuredError: Otherwise.
    """
    counted = list(estimates.counted(failures))
    if not counted:
        raise NothingMeasuredError(
            "the search was ended before a setting was tried",
            "let it go on for longer: --terminator tune, and more --trials",
        )
    stopped = [
        record.outcome.ending for record in counted if isinstance(record.outcome.ending, Stopped)
    ]
    if len(stopped) == len(counted):
        quickest = min(stopped, key=lambda ending: ending.projection_s)
        raise LimitReachedError(
            f"{what}: each of {len(counted)} launches was stopped before its end; the quickest was"
            f" {figures.stopped(objective, quickest)}",
            "give them more time with --max-time, or take another --pruner",
        )
    first = next(record for record in counted if isinstance(record.outcome.ending, Failed))
    failed = first.outcome.ending
    assert isinstance(failed, Failed)
    kinds = {getattr(record.outcome.ending, "kind", FailureKind.LIMIT) for record in failures}
    if kinds == {FailureKind.LIMIT}:
        raise LimitReachedError(
            f"{what}: each of {len(failures)} launches was over a time limit ({failed.reason})",
            f"give them more time with --trial-limit, or read {_where_to_read(first)}",
        )
    advice = _ADVICE.get(failed.kind, _USUAL_ADVICE)
    raise NothingMeasuredError(
        f"{what}: {len(failures)} launches in a row failed, the first with"
        f" {failed.kind}: {failed.reason}",
        f"read {_where_to_read(first)}{advice}",
    )


def _what_became_of(record: LaunchRecord, objective: ObjectiveSpec, *, is_written: bool) -> str:
    """Return the part of a hint that says where a launch is kept that the database lacks."""
    if is_written:
        return f"; launch {record.number} is kept in {Path(record.folder) / RECORD_FILE}"
    value = estimates.estimate_s(record.outcome.samples)
    if value is None:
        return ""
    shown = figures.shown(objective, value)
    return f"; not saved: launch {record.number} ({record.setting}), {shown}"


def _where_to_read(record: LaunchRecord) -> Path:
    """The file that says most of the launch's end: a hung one has printed nothing."""
    folder = Path(record.folder)
    hung = getattr(record.outcome.ending, "kind", None) is FailureKind.STALLED
    traces = folder / stacks.FOLDER
    return traces if hung and traces.is_dir() else folder / process.OUTPUT
