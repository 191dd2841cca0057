"""Settings measured in running jobs: one job at a time, one window a setting.

A job that takes no orders is an ordinary launch, and runs to its end as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from tuner.hosts import process
from tuner.hosts.interference import Neighbourhood
from tuner.launch.trial import MOST_OUTPUT, sampler
from tuner.live.job import Job
from tuner.live.judging import WindowJudge
from tuner.live.measuring import Measuring
from tuner.live.outcomes import Beside, is_cut_short, outcome
from tuner.live.request import MeasurementRequest
from tuner.live.starting import Started, met_in_vain, refusal, start, to_its_end
from tuner.live.warmup_job import whole_run
from tuner.model import Exclusion, ExclusionKind, Failed, Finished, Launch, Outcome, Setting

#: A job that has printed this share of what any may print is started afresh: it ran long.
PRINTED_SHARE = 0.5


class LiveJobs:
    """Measures settings in a running job, and starts one where that is due.

    On leaving, as a context manager, nothing of a job is left.

    Args:
        start: Starts a launch.
        clock: Seconds that only go forward.

    Attributes:
        refusal: Why the last launch was none that takes orders, in words; ``None``: it was.
        ends_alone: A job has ended by itself, with windows in it.
    """

    def __init__(
        self,
        start: Callable[[Launch], process.Running] = process.start,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._clock = clock
        self._job: Job | None = None
        self._marked_s = 0.0  # the end of the last window
        self.refusal: str | None = None
        self.ends_alone = False

    def __enter__(self) -> LiveJobs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the running job, if there is one; on return nothing of it is left.

        Raises:
            TunerError: A process of it cannot be ended (it hangs in the kernel).
        """
        job, self._job = self._job, None
        if job is not None:
            job.end()

    def measure(self, asked: MeasurementRequest, frozen: frozenset[str] = frozenset()) -> Outcome:
        """Measure a setting in a window of the running job, or of one that is started for it.

        Args:
            asked: What is to be measured.
            frozen: Knobs that are not to be changed in a running job.

        Returns:
            That of the window (`Outcome.window`), scaled to a full run; its ``wall_s`` is all the
            time since the last window of the job, or since the start of it. Where the job takes
            no orders, or ended before it could tell enough, that of a cold launch
            (:func:`tuner.launch.trial.run`). A window that fails ends the job.

        Raises:
            TunerError: A folder cannot be made, or a process of the job cannot be ended.
            UsageError: An old log cannot be removed.

        Whatever is raised, a KeyboardInterrupt too, goes on only after the job has been ended.
        """
        since_s = self._clock() if self._job is None else self._marked_s
        return self._measured(replace(asked, since_s=since_s), frozen)

    def _measured(self, asked: MeasurementRequest, frozen: frozenset[str]) -> Outcome:
        """In the running job where it fits, and was not cut short; else in a new one."""
        try:
            found = self._window(asked) if self._can_go_on(asked.setting, frozen) else None
            if found is None:
                self.end()
                found = self._started(asked)
        except BaseException:
            self.end()
            raise
        self._marked_s = self._clock()
        return found

    def launch(self, asked: MeasurementRequest) -> Outcome | None:
        """Make a launch of its own; what goes on beyond its end is the running job from then on.

        Returns:
            What :func:`tuner.launch.trial.run` does; ``None``: it ended without having written
            yet what it came to, and nothing of it is left.

        Raises:
            TunerError, UsageError: As :meth:`measure`, after which nothing is left either.
        """
        self.end()
        found = whole_run(replace(asked, since_s=self._clock()), self._start, self._clock)
        self._job, self.refusal = found.job, found.refusal
        self._marked_s = self._clock()
        return found.outcome

    def _can_go_on(self, setting: Setting, frozen: frozenset[str]) -> bool:
        """Whether the running job can be switched to the setting."""
        job = self._job
        if job is None:
            return False
        exit_ = job.running.poll()
        self.ends_alone |= _went_well(exit_)
        alive = exit_ is None and job.server.is_open
        quiet = job.follower.output_bytes() < PRINTED_SHARE * MOST_OUTPUT
        return alive and quiet and job.fits(setting, frozen)

    # --- a job of its own ------------------------------------------------------------

    def _started(self, asked: MeasurementRequest) -> Outcome:
        """Start the launch and measure in its first window; or follow it to its end."""
        self.refusal, started_s = None, self._clock()
        found = start(asked, self._start, self._clock)
        if isinstance(found, Outcome):
            return found
        try:
            return self._followed(asked, found, started_s)
        except BaseException:
            found.begun.follower.running.stop()
            raise
        finally:
            if self._job is None:
                found.close()

    def _followed(self, asked: MeasurementRequest, started: Started, started_s: float) -> Outcome:
        begun = started.begun
        cold = begun.outcome(started.takes_orders)
        if cold is None:
            window = self._first_window(asked, started, started_s)
            if window is not None:
                return window
            cold = to_its_end(begun, asked)
        waited = met_in_vain(asked.launch, asked.spec.layout.ranks)
        if waited or isinstance(cold.ending, Finished):  # else it may not have come so far
            self.refusal = waited or self.refusal or refusal(started, asked, cold)
        if waited:
            return replace(cold, exclusion=Exclusion(ExclusionKind.RANKS_WAITED, waited))
        return cold

    def _first_window(
        self, asked: MeasurementRequest, started: Started, started_s: float
    ) -> Outcome | None:
        """Measure in a launch that has said that it takes orders; ``None``: it is left alone."""
        server = started.server
        assert server is not None
        assert server.hello is not None
        if server.hello.ranks == asked.spec.layout.ranks:
            job = Job(asked.number, started.begun, server, server.hello, self._clock, started_s)
            self._job = job
            found = self._window(asked, self._clock() - started_s)
            if found is not None:
                return found
            self._job = None
        self.refusal = refusal(started, asked)
        server.hang_up()
        return None

    # --- a window --------------------------------------------------------------------

    def _window(self, asked: MeasurementRequest, started_s: float | None = None) -> Outcome | None:
        """Measure in the running job; ``None``: it was cut short.

        Args:
            asked: What is to be measured.
            started_s: What the start of the job took, s; ``None``: it was started before.
        """
        job = self._job
        assert job is not None
        judge = WindowJudge(asked.judge, asked.expected, job.pace_s or asked.expected.usual_s)
        found = Measuring(job, asked, judge, is_first=started_s is not None)
        ended = found.switch()
        load = telemetry = None
        if ended is None and found.switched is not None and not found.refused:
            job.follower.look_afresh()
            neighbourhood = Neighbourhood(job.running.pids())
            with sampler(job.follower) as recorder:
                ended = found.run()
            load, telemetry = neighbourhood.load(job.running.pids()), recorder.telemetry
        if is_cut_short(found, ended):
            return None
        came_to = outcome(found, ended, Beside(load, telemetry, started_s or 0.0))
        if ended is not None or isinstance(came_to.ending, Failed):
            self.ends_alone |= ended is not None and _went_well(ended[0])
            self.end()
            came_to = replace(came_to, wall_s=self._clock() - asked.since_s)
        elif found.estimate.iterations:
            job.note(found.estimate.pace_s)
        return came_to


def _went_well(exit_: process.Exit | None) -> bool:
    return exit_ is not None and exit_.code == 0 and not exit_.stopped
