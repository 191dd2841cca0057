"""Tells the job that runs now, and what windows cost, from the records alone. Pure.

So a resumed study decides as if it had never stopped.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tuner.live.eligibility import why_switched_off
from tuner.model import Failed, Finished, LaunchRecord, StudySpec
from tuner.search.scoring import Live
from tuner.search.throughput import Pace

#: What a switch takes, s, before one was measured: 8 ranks on 2 cores took 0.2 to 1.1.
SWITCH_S = 0.5

#: The share of a full run that a window takes: before one was measured, and at least.
WINDOW_SHARE, LEAST_SHARE = 0.3, 1e-3


def running_job(spec: StudySpec, records: Sequence[LaunchRecord]) -> LaunchRecord | None:
    """Return the launch that started the job that runs now; ``None``: none does.

    A cold launch ends it, and so does a failure. If live measurement is switched off, no job is
    started in place of the last one.
    """
    if not records or spec.live == "off" or why_switched_off(records):
        return None
    outcome = records[-1].outcome
    if outcome.window is None or isinstance(outcome.ending, Failed):
        return None
    number = outcome.window.job
    return next((record for record in records if record.number == number), records[-1])


def live_costs(
    spec: StudySpec, records: Sequence[LaunchRecord], knobs: Sequence[str]
) -> Live | None:
    """Return what a start and a switch cost; ``None``: the study measures nothing live by now.

    The `knobs` are those of the search, in its order.
    """
    windows = [(w, r.outcome) for r in records if (w := r.outcome.window) is not None]
    if spec.live == "off" or not windows or why_switched_off(records):
        return None
    job = running_job(spec, records)
    shares = [
        max(LEAST_SHARE, (outcome.wall_s - w.started_s - w.switch_s) / outcome.ending.elapsed_s)
        for w, outcome in windows
        if isinstance(outcome.ending, Finished)
    ]
    startups_s = [w.started_s for w, _ in windows if w.started_s]
    switches_s = [w.switch_s for w, _ in windows if not w.started_s]
    latest, _ = windows[-1]
    return Live(
        knobs=frozenset(latest.live),
        job=None if job is None else tuple(job.canonical.as_dict().get(name) for name in knobs),
        startup_s=statistics.median(startups_s or [0.0]),
        switch_s=statistics.median(switches_s or [SWITCH_S]),
        share=statistics.median(shares or [WINDOW_SHARE]),
    )


def window_pace(record: LaunchRecord) -> Pace | None:
    """Return how a window logs: one iteration an entry, with the spread of their times."""
    window = record.outcome.window
    if window is None:
        return None
    cv = window.pace_se * math.sqrt(window.iterations)
    return Pace(interval=1, cv=cv if math.isfinite(cv) else None)
