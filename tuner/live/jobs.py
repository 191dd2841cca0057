"""Settings measured in running jobs: one job at a time, one window a setting.

A job that accepts no switches is an ordinary launch, and runs to its end as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.hosts import process
from tuner.hosts.process import OUTPUT
from tuner.launch import stacks
from tuner.live.eligibility import is_reachable
from tuner.live.job import Job, start_job
from tuner.live.measurement import MeasurementRequest
from tuner.live.messages import Over
from tuner.live.scale import FullRunModel
from tuner.live.window import WindowRun
from tuner.model import Exclusion, ExclusionKind, Failed, Finished, Launch, Outcome


class LiveJobs:
    """Measures settings in a running job, and starts one when that is due.

    Args:
        start: Starts a launch.
        clock: Seconds that only go forward.

    Attributes:
        refusal: Why the last launch accepted no switches; ``None``: it did, or ended by chance.
        ends_alone: A job has ended by itself, with windows in it.
    """

    def __init__(
        self,
        start: Callable[[Launch], process.RunningTrial] = process.start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._clock = clock
        self._job: Job | None = None
        self._marked_s = 0.0  # the end of the last window
        self.refusal: str | None = None
        self.ends_alone = False

    def end(self) -> None:
        """End the running job, if there is one; on return nothing of it is left.

        Raises:
            TunerError: A process of it cannot be ended (it hangs in the kernel).
        """
        job, self._job = self._job, None
        if job is not None:
            job.end()

    def window(self, request: MeasurementRequest, model: FullRunModel) -> Outcome:
        """Measure a setting in a window of the running job, or of one that is started for it.

        Args:
            request: What to measure.
            model: What is known of a full run.

        Returns:
            That of the window (`Outcome.window`), scaled to a full run; its ``wall_s`` is all the
            time since the last window of the job, or since the start of it. If the job accepts
            no switches, or ended before it could tell enough, that of a cold launch
            (:func:`tuner.launch.trial.run`). A window that fails ends the job.

        Raises:
            TunerError: A folder cannot be made, or a process of the job cannot be ended.
            UsageError: An old log cannot be removed.

        Whatever is raised, a KeyboardInterrupt too, goes on only after the job has been ended.
        """
        since_s = self._clock() if self._job is None else self._marked_s
        try:
            outcome = None
            if self._can_go_on(request):
                outcome = self._measured(request, model, since_s, is_first=False)
            if outcome is None:
                self.end()
                outcome = self._in_new_job(request, model, since_s)
        except BaseException:
            self.end()
            raise
        self._marked_s = self._clock()
        return outcome

    def warm_up(self, request: MeasurementRequest) -> Outcome | None:
        """Make a launch to its program's own end; if it goes on, it is the running job then.

        Returns:
            What :func:`tuner.launch.trial.run` does; ``None``: it had not written yet what it
            came to, and nothing of it is left.

        Raises:
            TunerError, UsageError: As :meth:`window`, after which nothing is left either.
        """
        self.end()
        self.refusal = None
        job = start_job(request, self._start, self._clock, pauses=True)
        if isinstance(job, Outcome):
            return job
        server = job.server
        try:
            outcome, goes_on = job.launch.outcome_at_its_end(
                lambda: any(isinstance(message, Over) for message in server.receive(0.0))
            )
            if isinstance(outcome.ending, Finished):  # else it may not have come so far
                self.refusal = job.refusal(outcome)
                if goes_on and self.refusal is None:
                    self._job = job
            elif goes_on:
                return None
        finally:
            if self._job is None:
                job.end()
        self._marked_s = self._clock()
        return outcome

    def _can_go_on(self, request: MeasurementRequest) -> bool:
        """Whether the running job can be switched to the setting."""
        job = self._job
        if job is None:
            return False
        exit_ = job.running.poll()
        self.ends_alone |= _went_well(exit_)
        alive = exit_ is None and job.server.is_open
        return alive and is_reachable(job.request.setting, request.setting, job.can)

    def _in_new_job(
        self, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> Outcome:
        """Start the launch and measure in its first window; or follow it to its end."""
        self.refusal = None
        iterations = model.iterations
        job = start_job(request, self._start, self._clock, iterations=iterations or None)
        if isinstance(job, Outcome):
            return job
        try:
            cold = job.launch.outcome(job.server.listens)
            if cold is None:
                if job.hello.ranks == request.spec.layout.ranks:
                    self._job = job
                    outcome = self._measured(request, model, since_s, is_first=True)
                    if outcome is not None:
                        return outcome
                    self._job = None
                self.refusal = job.refusal(iterations=iterations)
                job.server.hang_up()
                cold = job.cold_outcome(iterations)
            waited = job.waited_in_vain()
            if waited or isinstance(cold.ending, Finished):  # else it may not have come so far
                self.refusal = waited or self.refusal or job.refusal(cold, iterations)
            if waited:
                exclusion = Exclusion(ExclusionKind.RANKS_WAITED, waited)
                cold = replace(cold, exclusion=exclusion)
            return cold
        except BaseException:
            job.running.stop()
            raise
        finally:
            if self._job is None:
                job.server.close()

    def _measured(
        self, request: MeasurementRequest, model: FullRunModel, since_s: float, *, is_first: bool
    ) -> Outcome | None:
        """Measure in the running job; ``None``: it was cut short."""
        job = self._job
        assert job is not None
        outcome = WindowRun(job, request, model, since_s, is_first=is_first).measure()
        if outcome is None:
            return None
        if not is_first:
            _link(job.monitor.launch.folder, request.launch.folder)
        if outcome.exit_code is not None or isinstance(outcome.ending, Failed):
            self.ends_alone |= _went_well(job.running.poll())
            self.end()
            outcome = replace(outcome, wall_s=self._clock() - since_s)
        return outcome


def _link(job: Path, window: Path) -> None:
    """Link what a job wrote into the folder of a later window."""
    for name in (OUTPUT, stacks.FOLDER):
        if (job / name).exists():
            with suppress(OSError):  # a file system without links: the job's folder has it
                (window / name).symlink_to(Path("..", job.name, name))


def _went_well(exit_: process.Exit | None) -> bool:
    return exit_ is not None and exit_.code == 0 and not exit_.stopped
