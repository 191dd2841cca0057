"""Settings measured in running jobs: one job at a time, one window a setting.

A job that accepts no switches is an ordinary launch, and runs to its end as one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

from tuner.hosts import process, stacks
from tuner.hosts.launch_observer import LaunchObserver, Observer
from tuner.hosts.networks import own_addresses
from tuner.hosts.probe import live_file
from tuner.hosts.process import OUTPUT
from tuner.hosts.untrusted_files import create
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import RunningLaunch, begin
from tuner.live.job import Job
from tuner.live.scale import FullRunModel, usual_s
from tuner.live.server import JobServer, Steps
from tuner.live.window import WindowRun
from tuner.model import Failed, Finished, Launch, Outcome, Progress, StudySpec, Value


def publish_here(launch: Launch, text: str) -> None:
    """Write the file of a launch on this host; an empty one goes."""
    path = live_file(launch.folder)
    if text:
        with os.fdopen(create(path), "w") as file:
            file.write(text)
    else:
        path.unlink(missing_ok=True)


class LiveJobs:
    """Measures settings in a running job, and starts one when that is due.

    Args:
        start: Starts a launch.
        observe: Gives what looks at it.
        publish: Lets the ranks of a launch read this text in its :func:`live_file`.

    Attributes:
        refusal: Why the last launch accepted no switches; ``None``: it did, or ended by chance.
        cannot: Why the last setting could not be switched to, in words; mostly empty.
        ends_alone: A job has ended by itself, with windows in it.
    """

    def __init__(
        self,
        start: Callable[[Launch], process.RunningCommand] = process.start,
        observe: Callable[[Launch, StudySpec], Observer] = LaunchObserver.of,
        publish: Callable[[Launch, str], None] = publish_here,
    ) -> None:
        self._start, self._observe, self._publish = start, observe, publish
        self._job: Job | None = None
        self._marked_s = 0.0  # the end of the last window
        self.refusal: str | None = None
        self.cannot = ""
        self._refused: dict[str, set[Value | None]] = {}
        self.ends_alone = False

    def end(self) -> None:
        """End the running job, if there is one; on return nothing of it is left.

        Raises:
            TunerError: A process of it cannot be ended (it hangs in the kernel).
        """
        job, self._job = self._job, None
        if job is not None:
            exit_ = job.running.poll()
            self.ends_alone |= exit_ is not None and exit_.code == 0 and not exit_.stopped
            job.end()

    def window(self, request: MeasurementRequest, model: FullRunModel) -> Outcome:
        """Measure a setting in a window of the running job, or of one that is started for it.

        A window that fails ends the job. Whatever is raised, a KeyboardInterrupt too, goes on only
        after the job has been ended.

        Returns:
            That of the window (`Outcome.window`), scaled to a full run; its ``wall_s`` is all the
            time since the last window of the job, or since the start of it. If the job accepts
            no switches, or ended before it could tell enough, that of a cold launch. If a rank
            cannot switch to the setting, a job is started with it, and none is asked again.

        Raises:
            TunerError, UsageError: As :func:`tuner.launch.trial.run`.
        """
        job, outcome, self.cannot = self._job, None, ""
        since_s = time.monotonic() if job is None else self._marked_s
        try:
            if (
                job is not None
                and job.running.poll() is None
                and job.server.listens()
                and job.reaches(request.setting)
            ):
                outcome = self._measured(job, request, model, since_s)
            if outcome is None:
                self.end()
                outcome = self._in_new_job(request, model, since_s)
        except BaseException:
            self.end()
            raise
        self._marked_s = time.monotonic()
        return outcome

    def warm_up(self, request: MeasurementRequest) -> Outcome | None:
        """Make a launch to its program's own end; if it goes on, it is the running job then.

        Returns:
            What :func:`tuner.launch.trial.run` does, with its errors; ``None``: it had not written
            yet what it came to, and nothing of it is left.
        """
        self.end()
        self.refusal = None
        # At the program's own end the last entry of its log may still be missing.
        job = self._started(replace(request, expected_iterations=None), whole=True)
        if isinstance(job, Outcome):
            return job

        times_s: list[float] = []  # without the marked ones

        def is_over() -> bool:
            messages = job.server.receive(0.0)
            job.hear(messages)
            steps = (message for message in messages if isinstance(message, Steps))
            times_s.extend(
                s for message in steps for _, s, is_marked in message.timings() if not is_marked
            )
            return job.server.is_over and job.server.hello is not None

        try:
            outcome, goes_on = job.launch.outcome_at_its_end(is_over)
            log = [Progress(n, elapsed_s) for n, elapsed_s in enumerate(accumulate(times_s), 1)]
            job.run_pace_s = usual_s(log) or 0.0  # as that of the program's own log
            if isinstance(outcome.ending, Finished):  # else it may not have come so far
                self.refusal = job.refusal(outcome)
                if goes_on and self.refusal is None:
                    self._job = job
            elif goes_on:
                return None
        finally:
            if self._job is None:
                job.end()
        self._marked_s = time.monotonic()
        return outcome

    def _started(self, request: MeasurementRequest, *, whole: bool = False) -> Job | Outcome:
        """Start the launch of a request; its outcome if it cannot be started.

        The program of a ``whole`` one says when it is at its own end, and waits there.
        """
        server: JobServer | None = None
        started_s = time.monotonic()

        def with_server(launch: Launch) -> process.RunningCommand:
            nonlocal server
            layout = request.spec.layout
            addresses = () if layout.is_local else own_addresses(layout.hosts)
            publish = partial(self._publish, launch)  # its folder is there by now
            server = JobServer(layout.ranks, publish, addresses, whole=whole)
            return self._start(launch)

        running: RunningLaunch | Outcome | None = None
        try:
            running = begin(request, start=with_server, observe=self._observe)
        finally:
            if not isinstance(running, RunningLaunch) and server is not None:
                server.close()
        if isinstance(running, Outcome):
            return running
        assert server is not None
        return Job(running, server, started_s, refused=self._refused)

    def _in_new_job(
        self, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> Outcome:
        """Start the launch and measure in its first window; or follow it to its end."""
        self.refusal = None
        job = self._started(request)
        if isinstance(job, Outcome):
            return job
        try:
            cold = job.launch.outcome(job.server.listens)
            if cold is None:
                self._job = job
                outcome = self._measured(job, request, model, since_s)
                if outcome is not None:
                    return outcome
                self._job = None
                self.refusal = job.refusal()
                job.server.hang_up()
                cold = job.launch.outcome()
                assert cold is not None  # it is followed to its end
            if isinstance(cold.ending, Finished):  # else it may not have come so far
                self.refusal = self.refusal or job.refusal(cold)
            return cold
        except BaseException:
            job.running.stop()
            raise
        finally:
            if self._job is None:
                job.server.close()

    def _measured(
        self, job: Job, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> Outcome | None:
        """Measure in the running job; ``None``: it was cut short, or cannot be switched to it."""
        run = WindowRun(job, request, model, since_s)
        outcome = run.measure()
        for knob, why in run.refused.items():
            self.cannot = why
            self._refused.setdefault(knob, set()).add(request.setting.as_dict().get(knob))
        if outcome is None:
            return None
        if request is not job.request:  # not its first window
            _link(job.request.launch.folder, request.launch.folder)
        if outcome.exit_code is not None or isinstance(outcome.ending, Failed):
            self.end()
            outcome = replace(outcome, wall_s=time.monotonic() - since_s)
        return outcome


def _link(job: Path, window: Path) -> None:
    """Link what a job wrote into the folder of a later window."""
    for name in (OUTPUT, stacks.FOLDER):
        if (job / name).exists():
            with suppress(OSError):  # a file system without links: the job's folder has it
                (window / name).symlink_to(Path("..", job.name, name))
