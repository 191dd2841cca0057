"""One run over a study: ask, measure, tell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.hosts.supervisor.cleanup import marker_of_launch
from tuner.launch import render
from tuner.launch.request import MeasurementRequest
from tuner.launch.secrets import kept_record, recorded_environment
from tuner.live.eligibility import live_vs_cold
from tuner.live.measurement import LiveMeasurement
from tuner.model import (
    FROM_OUTSIDE,
    Failed,
    FailureKind,
    LaunchRecord,
    Outcome,
    Progress,
    Purpose,
    Result,
    StudySpec,
    StudyState,
    figures,
    wording,
)
from tuner.model.errors import TunerError
from tuner.search.engine import Done
from tuner.stats import evidence
from tuner.store.rows import now
from tuner.store.store import Store
from tuner.study import believed_figures, doubts, outputs, pairing, stopping_rules
from tuner.study.confirmation import COST_SHARE
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note
from tuner.study.findings import build, early_notes, inherited_note, summary
from tuner.study.giving_up import where_to_read, why_given_up
from tuner.study.history import History
from tuner.study.interruption import Interruption
from tuner.study.journal import RECORD_FILE, Journal
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import Policy, Step, Stop
from tuner.study.running_trial import PrunerStopper, RunningTrial
from tuner.study.study_hosts import StudyHosts

#: This many launches in a row that were ended from outside end the study: more would follow.
LOST_IN_A_ROW = 3

#: How often a host that waits for others looks again, s.
LOOK_S = 0.5


class Cancelled(Exception):  # noqa: N818 - not an error: the user ended the session
    """The running launch was interrupted; it is saved."""


@dataclass(frozen=True)
class StudyContext:
    """What one call of :func:`~.tuning.tune` works with: study, store, folder and listener."""

    spec: StudySpec
    store: Store
    folder: Path
    emit: Callable[[Event], None]
    stop: Interruption
    policy: Policy
    remeasure: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)  # what launches inherit
    marker: str = ""  # the study's, if launches run on several hosts
    hosts: StudyHosts | None = None  # those hosts


@dataclass
class StudyRun:
    """One run over a study, with the study's history so far."""

    context: StudyContext
    history: History
    study: OptunaStudy
    journal: Journal
    live: LiveMeasurement
    _lost_in_a_row: int = 0  # launches that were ended from outside
    _emitted_notes: set[str] = field(default_factory=set)

    @property
    def spec(self) -> StudySpec:
        """The study as it is asked for."""
        return self.history.spec

    def result(self, state: StudyState, reason: str) -> Result:
        """Return what the study has come to so far."""
        best = self.context.policy.best(self.history)
        return build(self.history, self.context.store.url, state, reason, best)

    def measure(self) -> str:
        """Ask, measure, tell: until the search is over, and the best is compared. Return why.

        `Cancelled` if the user ended it, and the error of `why_given_up` if nothing works.
        """
        objective = self.spec.objective
        try:
            self.warm_up()
            while isinstance(step := self._next(), Step):
                self._tell_what_is_new(step)
                launch_together([(self, trial) for trial in self.ask(step)])
                if self.history.is_hopeless:
                    raise why_given_up(self.history.fruitless_launches, objective=objective)
                if failures := self.history.failures_since_it_worked():
                    raise why_given_up(failures, "the program no longer works", objective)
            if self.result(StudyState.RUNNING, "").candidate is None:
                raise why_given_up(self.history.fruitless_launches, objective=objective)
            return step.reason
        finally:
            with self.context.stop.held():
                self.live.end()

    def warm_up(self) -> None:
        """Fill the caches by launches that do not count, so that no setting meets cold ones.

        A new study warms up with what it launches first; that shows which knobs the program has. A
        resumed one warms up once, as the machine may have been started anew: with the best setting
        so far, which is the quickest.
        """
        step = self._next()
        if isinstance(step, Stop):
            return
        best = self.context.policy.best(self.history)
        count = self.spec.warm_ups if best is None else min(1, self.spec.warm_ups)
        setting, warm_ups = step.setting if best is None else best, 0
        while warm_ups < count:
            trials = self.ask(Step(Purpose.WARM_UP, setting))
            launch_together([(self, trial) for trial in trials])
            warm_ups += self._lost_in_a_row == 0  # one that was ended from outside warmed nothing

    # --- one step ---------------------------------------------------------------------

    def _next(self) -> Step | Stop:
        """Return what comes next, by the policy, unless another terminator ends the search before.

        Windows that launches contradict are excluded first. A search ends once no other host
        measures a part of it.
        """
        policy = self.context.policy
        while True:
            self.history = history = self.study.history()
            exclusion = live_vs_cold(history.records)
            if exclusion is not None:
                windows = [r.number for r in evidence.counted(history.records) if r.job]
                with self.context.stop.held():
                    self.live.end()
                    self.study.exclude(windows, exclusion)
                self._say(f"{exclusion.text}; {wording.count(len(windows), 'window')} excluded")
                continue
            choice = policy.search(history)
            if isinstance(choice, Step) and self.study.is_terminated():
                choice = Done("terminated")
            step = choice if isinstance(choice, Step) else policy.after_search(history, choice)
            is_over = isinstance(step, Stop) or step.purpose.stage.follows_search
            if is_over and history.pending:
                if self.context.stop():
                    raise Cancelled
                self._say("waiting for the launches of the other hosts")
                time.sleep(LOOK_S)
                continue
            return step

    def _tell_what_is_new(self, step: Step) -> None:
        """Say what the launches have shown, each thing once; refuse to search for a low rate."""
        history = self.history
        believed_figures.check_direction(history.records, history.spec.objective)
        for text in early_notes(history):
            self._say(text)
        if step.purpose is Purpose.BASELINE:
            self._say(inherited_note(self.spec, dict(os.environ)) or "")
        comparison = self.context.policy.confirmation(history)
        if step.purpose is not Purpose.CONFIRM or comparison is None:
            return
        if comparison.why_in_turn:
            self._say(f"compared in turn, not side by side: {comparison.why_in_turn}")
        budget_s, left_s = self.spec.budget_s, None if history.confirming else comparison.left_s
        if budget_s is not None and left_s is not None and left_s > COST_SHARE * budget_s:
            self._say(
                f"the comparison with your defaults takes about {wording.duration(left_s)}, beyond"
                f" the budget of {wording.duration(budget_s)}: --confirm none ends the study"
                " without it"
            )

    def _say(self, text: str) -> None:
        """Tell the user something, once."""
        if text and text not in self._emitted_notes:
            self._emitted_notes.add(text)
            self.context.emit(Note(text))

    def ask(self, step: Step) -> list[RunningTrial]:
        """Return the trials of the step: one, or two side by side; none if a host has taken it."""
        if self.context.stop():
            raise Cancelled
        if (hosts := self.context.hosts) is not None and hosts.hosts.lost():
            self.live.end()  # the running job has lost its host
            hosts.replace_lost()
        trial = self.study.ask(self.history, step)
        if trial is not None and trial.redraws:
            suggestions = wording.count(trial.redraws, "suggestion")
            text = f"{suggestions} of {self.spec.sampler} not launched: known, or ruled out"
            self.context.emit(Note(text))
        if trial is None or step.beside is None:
            return [] if trial is None else [trial]
        other = self.study.ask(self.history, Step(step.purpose, step.beside))
        assert other is not None  # trials of the comparison are never refused
        return [trial, other]

    def _request(self, trial: RunningTrial, beside: int | None) -> MeasurementRequest:
        """Say that a launch begins, and return its request; fail if no record could be stored."""
        context, history, step, number = self.context, self.history, trial.step, trial.launch
        spec, purpose, setting = self.spec, step.purpose, step.setting
        if context.hosts is not None:
            spec = replace(spec, layout=context.hosts.layout)
        spec = spec.at(setting)
        folder = outputs.launch_folder(context.folder, number)
        trial_number = history.trials + 1 if purpose.stage.counts_as_trial else None
        is_live = self.live.is_window(history.records, purpose, setting)
        most = max(history.trials, min(history.spec.trials, history.size))
        context.emit(LaunchStarted(number, purpose, setting, trial_number, most, is_live, beside))
        launch = render.launch(
            spec,
            setting,
            folder,
            environ=context.environ,
            cwd=Path(spec.folder or Path.cwd()),
            marker=marker_of_launch(context.marker, number) if context.marker else None,
        )
        context.store.require_usable(self.spec.name)
        try:
            self.journal.reserve(folder)
        except OSError as error:
            raise outputs.not_written(f"the output folder {folder}", error) from error

        def cancelled() -> bool:
            trial.beat()
            return context.stop()

        def on_progress(progress: Progress) -> None:
            context.emit(LaunchProgress(number, progress))
            trial.report(progress)

        by_pruner = PrunerStopper(trial, context.policy.race(history, purpose, setting))
        next_launch = stopping_rules.NextLaunch(purpose, setting, history, by_pruner)
        incumbent = history.fastest(is_allowed=lambda _: True)
        return MeasurementRequest(
            launch,
            spec,
            setting,
            number=number,
            purpose=purpose,
            records=history.records,
            incumbent_s=None if incumbent is None else incumbent.elapsed_s,
            expected_iterations=history.expected_iterations(setting),
            stopper=stopping_rules.stopper(next_launch),
            on_progress=on_progress,
            cancelled=cancelled,
        )

    def _record(
        self, trial: RunningTrial, request: MeasurementRequest, outcome: Outcome, started_at: str
    ) -> LaunchRecord:
        """Return the record of a launch, in which no secret stands."""
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
        return kept_record(record, request.launch.env)

    def _tell(self, trial: RunningTrial, record: LaunchRecord) -> None:
        """Store the launch in its file and on its trial. Only then does anybody hear of it."""
        file, is_written = Path(record.folder) / RECORD_FILE, True
        try:
            self.journal.write(record)
        except OSError as error:
            is_written = False
            text = f"{file} cannot be written: {error.strerror}"
            self.context.emit(Note(f"{text}; launch {record.number} goes to the database alone"))
        try:
            self.history = history = self.study.tell(trial, record)
        except TunerError as error:
            value = evidence.estimate_s(record.outcome.samples)
            if is_written:
                error.hint += f"; launch {record.number} is kept in {file}"
            elif value is not None:
                shown = figures.shown(self.spec.objective, value)
                error.hint += f"; not saved: launch {record.number} ({record.setting}), {shown}"
            raise
        result = self.result(StudyState.RUNNING, "")
        self.context.store.set_summary(self.spec.name, summary(result))
        judged = next(r for r in history.records if r.number == record.number)
        measurement = so_far = None
        if evidence.counted([judged]):
            measurement = history.measurements[judged.canonical]
        is_best = bool(
            measurement is not None
            and result.best is not None
            and measurement.setting == result.best.setting
            and judged.outcome.samples
        )
        is_compared = judged.purpose is Purpose.CONFIRM
        comparison = self.context.policy.confirmation(history) if is_compared else None
        if comparison is not None and comparison.reference is not None:
            pairs = pairing.compared(history, comparison.best, comparison.reference)
            so_far = pairs.judge(self.spec.precision, is_last=True)
        self.context.emit(LaunchEnded(judged, measurement, is_best, so_far))

    def _count_lost(self, record: LaunchRecord) -> None:
        """End the study on a full disk, or after too many launches in a row ended from outside."""
        if record.outcome.exclusion is not None:
            return
        ending = record.outcome.ending
        if not isinstance(ending, Failed) or ending.kind not in FROM_OUTSIDE:
            self._lost_in_a_row = 0
            return
        if ending.kind is FailureKind.DISK_FULL:
            raise TunerError(
                f"the disk is full, or its quota used up: launch {record.number} ended with"
                f" {ending.reason}",
                "free some space, then run the same command again: what was measured is kept",
            )
        self._lost_in_a_row += 1
        if self._lost_in_a_row == LOST_IN_A_ROW:
            raise TunerError(
                f"{self._lost_in_a_row} launches in a row were ended from outside, the last one as"
                f" {ending.kind}: {ending.reason}",
                f"read {where_to_read(record)}: did a batch system, a user or the kernel end"
                " them, or is a host gone? Then the same command goes on: what was measured is"
                " kept",
            )


def launch_together(trials: Sequence[tuple[StudyRun, RunningTrial]]) -> list[LaunchRecord]:
    """Launch the setting of a trial, or those of two side by side, and return the stored records.

    The two are of one study, or of two that stop together. A launch that was ended from outside
    says nothing of its setting, which is next again. `Cancelled` once the records are stored, if
    the user has ended the launch.
    """
    if not trials:
        return []
    first = trials[0][0]
    stop, is_broken_off = first.context.stop, False
    with stop.held():
        try:
            besides = (None, trials[0][1].launch)  # the second runs at the side of the first
            with_beside = zip(trials, besides, strict=False)
            requests = [run._request(trial, beside) for (run, trial), beside in with_beside]
            started_at = now()
            outcomes, is_broken_off = _outcomes(first.live, requests)
            measured = zip(trials, requests, outcomes, strict=True)
            records = [
                run._record(trial, request, outcome, started_at)
                for (run, trial), request, outcome in measured
            ]
        except TunerError as error:
            for run, trial in trials:
                run.study.fail(trial.trial, error.message)
            raise
        if len(records) == 2:
            records = pairing.check_pair(records, [run.history for run, _ in trials])
        for (run, trial), record in zip(trials, records, strict=True):
            run._tell(trial, record)
    if any(map(evidence.was_interrupted, records)) and (is_broken_off or stop()):
        raise Cancelled
    first.live.require_live(first.history.records)
    first._say(first.live.note(first.history.records))
    for (run, _), record in zip(trials, records, strict=True):
        run._count_lost(record)
    return records


def _outcomes(
    live: LiveMeasurement, requests: Sequence[MeasurementRequest]
) -> tuple[list[Outcome], bool]:
    """Measure one setting, or two side by side; return, too, whether a second signal ended that."""
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
