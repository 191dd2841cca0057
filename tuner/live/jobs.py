"""Measures settings in running jobs: one job at a time, one window a setting.

A job that accepts no switches is an ordinary launch, and runs to its end as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from tuner.hosts import process, stacks
from tuner.hosts.launch_observer import LaunchObserver
from tuner.hosts.networks import own_addresses
from tuner.hosts.probe import live_file
from tuner.hosts.process import OUTPUT
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import RunningLaunch, begin
from tuner.live.full_run import FullRunModel
from tuner.live.job_server import JobServer, publish
from tuner.live.window import Job, WindowRun
from tuner.model import Failed, Finished, Launch, Outcome, StudySpec


def publish_here(launch: Launch, text: str) -> None:
    """Write a text into the :func:`live_file` of a launch on this host; an empty one removes it."""
    publish(live_file(launch.folder), text)


class LiveJobs:
    """Measures settings in a running job, and starts one when that is due.

    ``publish`` lets the ranks of a launch read a text in its :func:`live_file`. ``refusal`` says
    why the last launch accepted no switches at all (empty: it did, or ended too early to tell),
    ``refused_switch`` why the last setting could not be switched to (empty: it could), and
    ``ends_by_itself`` whether a job with windows has come to the program's own end.
    """

    def __init__(
        self,
        start: Callable[[Launch], process.RunningCommand] = process.start,
        observe: Callable[[Launch, StudySpec], LaunchObserver] = LaunchObserver.of,
        publish: Callable[[Launch, str], None] = publish_here,
    ) -> None:
        self._start, self._observe, self._publish = start, observe, publish
        self._job: Job | None = None
        self._window_ended_s = 0.0  # when the last window ended, by `time.monotonic`
        self._refused_knobs: set[str] = set()  # that a job of this run could not change
        self.refusal = self.refused_switch = ""
        self.ends_by_itself = False

    def end(self) -> None:
        """End the running job, if there is one; on return nothing of it is left.

        Raises:
            TunerError: A process of it cannot be ended (it hangs in the kernel).
        """
        job, self._job = self._job, None
        if job is not None:
            exit_ = job.running.poll()
            self.ends_by_itself |= exit_ is not None and exit_.code == 0 and not exit_.stopped
            job.end()

    def window(self, request: MeasurementRequest, model: FullRunModel) -> Outcome:
        """Measure a setting in a window of the running job, or of one that is started for it.

        A window that fails ends the job. Whatever is raised, a KeyboardInterrupt too, goes on only
        after the job has been ended. The outcome is scaled to a full run; its ``wall_s`` is all the
        time since the last window of the job, or since the start of it. It is that of a cold launch
        if the job accepts no switches, or ended after too few iterations. If a rank cannot change a
        knob, a job is started with the setting, and no later one is asked to change that knob.

        Raises:
            TunerError, UsageError: As :func:`tuner.launch.trial.run`.
        """
        job, outcome, self.refused_switch = self._job, None, ""
        since_s = time.monotonic() if job is None else self._window_ended_s
        try:
            if (
                job is not None
                and job.running.poll() is None
                and job.server.listens()
                and job.reaches(request.setting)
            ):
                outcome = self._measure_in(job, request, model, since_s)
            if outcome is None:
                self.end()
                outcome = self._measure_in_new_job(request, model, since_s)
        except BaseException:
            self.end()
            raise
        self._window_ended_s = time.monotonic()
        return outcome

    def _measure_in_new_job(
        self, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> Outcome:
        """Start the launch and measure in its first window; or follow it to its end."""
        self.refusal = ""
        layout, started_s = request.spec.layout, time.monotonic()
        addresses = () if layout.is_local else own_addresses(layout.hosts)
        server = JobServer(layout.ranks, partial(self._publish, request.launch), addresses)

        def start(launch: Launch) -> process.RunningCommand:
            server.listen()  # the launch's folder is there by now
            return self._start(launch)

        launch: RunningLaunch | Outcome | None = None
        try:
            launch = begin(request, start=start, observe=self._observe)
            if isinstance(launch, Outcome):
                return launch
            cold = launch.outcome(server.listens)  # None: all ranks accept switches
            if cold is None and server.hello is not None:
                self._job = job = Job(launch, server, server.hello, started_s, self._refused_knobs)
                outcome = self._measure_in(job, request, model, since_s)
                if outcome is not None:
                    return outcome
                self._job = None
                self.refusal = server.problem if job.running.poll() is None else ""
                server.hang_up()
            cold = cold or launch.outcome()
            assert cold is not None  # it is followed to its end
            if isinstance(cold.ending, Finished):  # else it may have ended too early to tell
                self.refusal = self.refusal or _why_no_switches(server, layout.ranks)
            return cold
        except BaseException:
            if isinstance(launch, RunningLaunch):
                launch.monitor.running.stop()
            raise
        finally:
            if self._job is None:
                server.close()

    def _measure_in(
        self, job: Job, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> Outcome | None:
        """Measure in a window of this job; ``None``: it was cut short, or refused the switch."""
        run = WindowRun(job, request, model, since_s)
        outcome = run.measure()
        for knob, why in run.refusals.items():
            self.refused_switch = why
            self._refused_knobs.add(knob)
        if outcome is None:
            return None
        if request is not job.request:  # not its first window
            _link(job.request.launch.folder, request.launch.folder)
        if outcome.exit_code is not None or isinstance(outcome.ending, Failed):
            self.end()
            outcome = replace(outcome, wall_s=time.monotonic() - since_s)
        return outcome


def _why_no_switches(server: JobServer, ranks: int) -> str:
    """Return why no switches were possible in a launch that has ended; empty: it is not known."""
    server.receive_all()
    if server.hello is not None:
        return ""
    if server.arrived:
        return f"{server.arrived} of {ranks} ranks said that they accept switches"
    return server.problem or "no rank said that it accepts switches"


def _link(job_folder: Path, window_folder: Path) -> None:
    """Put links to the job's output and stacks into the folder of a later window."""
    for name in (OUTPUT, stacks.FOLDER):
        if (job_folder / name).exists():
            with suppress(OSError):  # a file system without links: the job's folder has the file
                (window_folder / name).symlink_to(Path("..", job_folder.name, name))
