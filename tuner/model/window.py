"""A stretch of a running job in which one setting was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Where a launch was measured that was no process of its own: a window of a running job.

    Its outcome is scaled to a full run. The job is the launch ``job`` of the study, whose own
    record is its first window; it was started with that record's setting.

    Attributes:
        job: The number of the launch that started the job.
        live: The knobs that the job can change while it runs, sorted.
        started_s: What the start of the job took, s; 0.0 in all but its first window.
        switch_s: From the order to switch until every rank had read its values back, s.
        discarded: Iterations thrown away after the switch, until they were steady.
        iterations: Iterations measured.
        pace_s: Seconds an iteration, their mean.
        pace_se: Its standard error, relative.
        at_s: The middle of the window, s after the job's start.
    """

    job: int
    live: tuple[str, ...]
    started_s: float
    switch_s: float
    discarded: int
    iterations: int
    pace_s: float
    pace_se: float
    at_s: float
