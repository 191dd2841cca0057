"""One launch made: as a launch of its own, or as a window of a running job."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tuner.hosts.process import OUTPUT
from tuner.launch import stacks
from tuner.live.request import MeasurementRequest
from tuner.live.scale import FullRunModel
from tuner.model import (
    Failed,
    FailureKind,
    Launch,
    Outcome,
    Progress,
    Setting,
    StudySpec,
    Window,
)
from tuner.search.stopper import EarlyStopper
from tuner.store.failures import from_os_error
from tuner.study.cold_only_knobs import frozen
from tuner.study.events import Event, LaunchProgress
from tuner.study.history import History
from tuner.study.policy import Step
from tuner.study.retuning import Retuning


class TrialRunner(Protocol):
    """Runs one launch to its outcome: :func:`tuner.launch.trial.run`, or what stands in for it."""

    def __call__(
        self,
        launch: Launch,
        *,
        spec: StudySpec,
        setting: Setting,
        expected_iterations: int | None,
        on_progress: Callable[[Progress], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        judge: EarlyStopper | None = None,
    ) -> Outcome: ...


@dataclass
class Runner:
    """Makes the launches of a study; ``asked`` says that a second signal broke one off."""

    run: TrialRunner
    emit: Callable[[Event], None]
    cancelled: Callable[[], bool]
    retuning: Retuning = field(default_factory=Retuning)
    clock: Callable[[], float] = time.monotonic
    asked: bool = False
    _job: Path | None = None  # the folder of the running job

    def outcome(
        self, number: int, launch: Launch, step: Step, plan: History, expected: FullRunModel | None
    ) -> Outcome:
        """What the launch comes to: a window of a running job where something is ``expected``.

        Raises:
            TunerError: Its folder cannot be used, or a process cannot be ended.
        """
        started_s = self.clock()
        try:
            return self._made(number, launch, step, plan, expected)
        except KeyboardInterrupt:  # asked twice; the runner has ended the trial
            self.asked = True
            failed = Failed(FailureKind.INTERRUPTED, "ended by the user")
            return Outcome(failed, wall_s=self.clock() - started_s, exit_code=None)
        except OSError as error:
            raise from_os_error(
                error,
                f"the output folder {launch.folder}",
                "Choose another place with --outputs FOLDER.",
            ) from error

    def _made(
        self, number: int, launch: Launch, step: Step, plan: History, expected: FullRunModel | None
    ) -> Outcome:
        asked = MeasurementRequest(
            number,
            launch,
            plan.spec,
            step.setting,
            judge=step.judge,
            on_progress=lambda progress: self.emit(LaunchProgress(number, progress)),
            cancelled=self.cancelled,
        )
        jobs = self.retuning.jobs
        if expected is not None and jobs is not None:
            found = jobs.measure(replace(asked, expected=expected), frozen(plan.records))
            self._link(number, launch, found.window)
            return found
        self.retuning.end()  # nothing of a study runs beside a launch
        if jobs is not None and self.retuning.goes_on(plan, step, launch.env):
            whole = jobs.launch(asked)
            if whole is not None:
                self._job = launch.folder
                return whole
        return self.run(
            launch,
            spec=asked.spec,
            setting=asked.setting,
            expected_iterations=plan.expected_iterations(asked.setting),
            on_progress=asked.on_progress,
            cancelled=asked.cancelled,
            judge=asked.judge,
        )

    def _link(self, number: int, launch: Launch, window: Window | None) -> None:
        """Let what a job wrote be found in the folders of all its windows."""
        if window is None:
            return
        if window.job == number:
            self._job = launch.folder
            return
        for name in (OUTPUT, stacks.FOLDER):
            if self._job is not None and (self._job / name).exists():
                with suppress(OSError):  # a file system without links: the job's folder has it
                    (launch.folder / name).symlink_to(Path("..", self._job.name, name))
