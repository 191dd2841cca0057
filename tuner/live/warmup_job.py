"""A launch that runs to its program's own end, and goes on behind it as a job that takes orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.hosts import process
from tuner.live.job import Job
from tuner.live.messages import Over
from tuner.live.request import MeasurementRequest
from tuner.live.starting import Started, refusal, start
from tuner.model import Finished, Launch, Outcome


@dataclass(frozen=True)
class WholeRun:
    """What it came to.

    Attributes:
        outcome: That of the run; ``None``: at its end the program had not written yet what it
            came to, and it was ended.
        job: What goes on; ``None``: it has ended.
        refusal: Why nothing of this program takes orders; ``None``: something did, or may.
    """

    outcome: Outcome | None
    job: Job | None = None
    refusal: str | None = None


def whole_run(
    asked: MeasurementRequest,
    start_launch: Callable[[Launch], process.Running],
    clock: Callable[[], float],
) -> WholeRun:
    """Make the launch that is asked for.

    Raises:
        TunerError, UsageError: What :func:`tuner.launch.trial.begin` does.

    Whatever is raised goes on only after it has been ended.
    """
    started_s = clock()
    started = start(asked, start_launch, clock, pauses=True)
    if isinstance(started, Outcome):
        return WholeRun(started)
    job = None
    try:
        outcome, goes_on = started.begun.outcome_at_its_end(lambda: _is_over(started))
        if not goes_on:
            finished = isinstance(outcome.ending, Finished)  # else it may not have come so far
            return WholeRun(outcome, refusal=refusal(started, asked, outcome) if finished else None)
        if not isinstance(outcome.ending, Finished):
            return WholeRun(None)
        why, server = refusal(started, asked, outcome), started.server
        if why is None and server is not None and server.hello is not None:
            job = Job(asked.number, started.begun, server, server.hello, clock, started_s)
        return WholeRun(outcome, job, why)
    finally:
        if job is None:
            started.begun.follower.running.stop()
            started.close()


def _is_over(started: Started) -> bool:
    server = started.server
    return server is not None and any(isinstance(each, Over) for each in server.receive(0.0))
