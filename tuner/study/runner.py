"""One setting measured, with what the user does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tuner.live.measurement import LiveMeasurement, MeasurementRequest
from tuner.model import Failed, FailureKind, Launch, Outcome
from tuner.stats import estimates
from tuner.store.failures import from_os_error
from tuner.study.events import Event, LaunchProgress
from tuner.study.history import History
from tuner.study.policy import Step


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
