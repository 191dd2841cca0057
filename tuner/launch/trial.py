"""A launch from its empty folder to its `Outcome`."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from tuner.hosts import process
from tuner.hosts.interference import Neighbourhood
from tuner.hosts.probe import probe_folder
from tuner.hosts.telemetry import Sampler
from tuner.knobs.effects import effects
from tuner.launch import failure
from tuner.launch.classifier import OutcomeClassifier, output_of
from tuner.launch.monitor import Ended, LaunchMonitor
from tuner.launch.objectives import objective_for
from tuner.launch.phases import read_phases
from tuner.launch.secrets import make_folder
from tuner.model import (
    Failed,
    FailureKind,
    Launch,
    Outcome,
    Progress,
    Setting,
    StudySpec,
    Telemetry,
)
from tuner.model.errors import TunerError
from tuner.search.stopper import EarlyStopper

#: The system had no resources left for us: that says nothing of the setting.
_OF_THE_MACHINE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def ignore(_: Progress) -> None:
    """Nobody follows the launch."""


def begin(
    launch: Launch,
    *,
    spec: StudySpec,
    setting: Setting,
    expected_iterations: int | None,
    start: Callable[[Launch], process.Running] = process.start,
    clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    stopper: EarlyStopper | None = None,
) -> RunningLaunch | Outcome:
    """Start `launch`; an `Outcome` if it cannot be started.

    The caller ends what was begun, on every path.

    Args:
        launch: What to run; its folder and output folder are made if they are missing.
        spec: The study, for its objective, knobs, machine and rank count.
        setting: What the launch was rendered from.
        expected_iterations: The most iterations that a run did so far, if there was one.
        start: Starts the launch.
        clock: Seconds that only go forward.
        on_progress: Called with each new entry of the log.
        cancelled: Asked often; True ends the launch as interrupted.
        stopper: Asked often too; ends the launch once it cannot win any more.

    Raises:
        TunerError: A folder cannot be made, or a process of the trial cannot be ended.
        UsageError: An old log cannot be removed.
    """
    # For their owner only: logs may hold what a program was given.
    for folder in (launch.folder, launch.out_dir, probe_folder(launch.folder)):
        try:
            make_folder(folder)
        except OSError as error:
            raise TunerError(
                f"the trial's folder {folder} cannot be made: {error.strerror}",
                "check the permissions and the free space there",
            ) from error
    objective = objective_for(spec.objective)
    objective.prepare(launch.out_dir)
    classifier = OutcomeClassifier(launch, spec, objective, expected_iterations)
    neighbourhood = Neighbourhood()
    try:
        running = start(launch)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        kind, reason = FailureKind.LAUNCHER, f"cannot be started: {what}"
        if error.errno in _OF_THE_MACHINE:
            kind = FailureKind.INTERRUPTED
            reason = f"this machine could not start a process: {what}"
        elif error.errno in _DISK_FULL:
            kind = FailureKind.DISK_FULL
        return Outcome(Failed(kind, reason), wall_s=0.0, exit_code=None)
    monitor = LaunchMonitor(
        launch, spec, running, objective, clock, on_progress or ignore, cancelled, stopper
    )
    return RunningLaunch(setting, monitor, classifier, neighbourhood)


def run(launch: Launch, **options: Any) -> Outcome:
    """Run `launch` to its end; options and errors are those of :func:`begin`.

    Whatever is raised, a KeyboardInterrupt too, goes on only after the launch has been ended.
    """
    started = begin(launch, **options)
    outcome = started if isinstance(started, Outcome) else started.outcome()
    assert outcome is not None  # it is followed to its end
    return outcome


@dataclass(frozen=True)
class RunningLaunch:
    """A launch that runs, and what is needed to classify its end."""

    setting: Setting
    monitor: LaunchMonitor
    classifier: OutcomeClassifier
    neighbourhood: Neighbourhood

    def outcome(self, done: Callable[[], bool] = lambda: False) -> Outcome | None:
        """Follow it to its end; ``None`` once ``done``, with the launch as it runs.

        Whatever is raised goes on only after the launch has been ended.
        """
        ended, telemetry = self._follow(done)
        return None if ended is None else self._conclude(ended, telemetry)

    def outcome_at_its_end(self, over: Callable[[], bool]) -> tuple[Outcome, bool]:
        """The same, but once it is ``over`` while its processes go on, its outcome up to then.

        Returns:
            The outcome, and whether the processes go on.
        """
        ended, telemetry = self._follow(over)
        if ended is not None:
            return self._conclude(ended, telemetry), False
        exit_ = process.Exit(0, self.monitor.passed_s, stopped=False, killed=0)
        outcome = self._conclude((exit_, None), telemetry, self.monitor.running.pids())
        return replace(outcome, exit_code=None), True

    def _follow(self, done: Callable[[], bool]) -> tuple[Ended | None, Telemetry]:
        with sampler(self.monitor) as recorder:
            try:
                ended = self.monitor.follow(done)
            except BaseException:
                self.monitor.running.stop()
                raise
        phases = read_phases(self.monitor.launch.folder)
        return ended, replace(recorder.telemetry, phases=phases)

    def _conclude(
        self, ended: Ended, telemetry: Telemetry | None, alive: Collection[int] = ()
    ) -> Outcome:
        """The outcome; ``alive`` are the processes of the launch that go on."""
        monitor, (exit_, stopped) = self.monitor, ended
        load = self.neighbourhood.load(alive)
        monitor.report_progress()
        observation = monitor.watcher.result()
        return Outcome(
            self.classifier.classify(exit_, stopped, observation.ranks),
            wall_s=exit_.wall_s,
            exit_code=exit_.code,
            progress=monitor.progress,
            observation=observation,
            effects=effects(self.setting, monitor.spec.knobs, observation, monitor.spec.machine),
            load=load,
            telemetry=telemetry,
        )

    def output_tail(self) -> str:
        """The end of what it printed."""
        return failure.tail(output_of(self.monitor.launch))


def sampler(monitor: LaunchMonitor) -> Sampler:
    """What records the launch while it is followed."""
    spec = monitor.spec
    return Sampler(
        lambda: monitor.watcher.members,
        ranks=spec.layout.ranks,
        gpus=bool(spec.machine.gpus),
        environ=monitor.launch.env,
    )
