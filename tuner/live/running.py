"""The job that runs now, and what windows cost, from the records alone. Pure.

So a resumed study decides as if it had never stopped.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.live.eligibility import is_reachable, why_switched_off
from tuner.model import Failed, Finished, LaunchRecord, Setting, StudySpec
from tuner.search import Live
from tuner.search.throughput import Pace, startup_s

Canonical = Callable[[Setting], Setting]

#: What a switch takes before one was seen, s; 0.2 to 1.1 were, with 8 ranks on 2 cores.
SWITCH_S = 0.5

#: The share of a full run that a window takes, before one came to its end; and at least.
SHARE, LEAST_SHARE = 0.3, 1e-3


@dataclass(frozen=True)
class RunningJob:
    """The job that runs after the last record.

    Attributes:
        number: That of the launch that started it.
        start: The (canonical) setting that it was started with.
        live: The knobs that it can change.
    """

    number: int
    start: Setting
    live: frozenset[str]

    def serves(self, setting: Setting) -> bool:
        """Whether a (canonical) setting can be measured in it."""
        return is_reachable(self.start, setting, self.live)


def running_job(
    spec: StudySpec, records: Sequence[LaunchRecord], canonical: Canonical
) -> RunningJob | None:
    """The job that runs now; ``None``: none does.

    A cold launch ends it, and so does a failure. If live measurement is switched off,
    no job is started in place of the last one.
    """
    if not records or spec.live == "off" or why_switched_off(records):
        return None
    last = records[-1].outcome
    if last.window is None or isinstance(last.ending, Failed):
        return None
    number = last.window.job
    started = next((r for r in records if r.number == number), records[-1])
    return RunningJob(number, canonical(started.setting), frozenset(last.window.live))


def live_costs(
    spec: StudySpec, records: Sequence[LaunchRecord], canonical: Canonical, knobs: Sequence[str]
) -> Live | None:
    """What live measurement changes of the search's costs; ``None``: there is none by now.

    Args:
        spec: The study.
        records: Its launches.
        canonical: Gives settings that come to the same one form.
        knobs: The names of the search's knobs, in its order.
    """
    windowed_launches = [(r, w) for r in records if (w := r.outcome.window) is not None]
    if spec.live == "off" or not windowed_launches or why_switched_off(records):
        return None
    job = running_job(spec, records, canonical)
    switches = [window.switch_s for _, window in windowed_launches if not window.started_s]
    # A warm-up may have started the only job: then what launches took before their own clocks.
    startups = [window.started_s for _, window in windowed_launches if window.started_s] or [
        time_s
        for r in records
        if r.job is None and (time_s := startup_s(r.outcome.progress)) is not None
    ]
    shares = [
        max(LEAST_SHARE, (r.outcome.wall_s - w.started_s - w.switch_s) / r.outcome.ending.elapsed_s)
        for r, w in windowed_launches
        if isinstance(r.outcome.ending, Finished)
    ]
    return Live(
        knobs=frozenset(windowed_launches[-1][1].live),
        job=None if job is None else tuple(job.start.as_dict().get(name) for name in knobs),
        startup_s=statistics.median(startups) if startups else 0.0,
        switch_s=statistics.median(switches) if switches else SWITCH_S,
        share=statistics.median(shares) if shares else SHARE,
    )


def window_pace(record: LaunchRecord) -> Pace | None:
    """How the iterations of a window come: one by one, and by how much they differ."""
    window = record.outcome.window
    if window is None:
        return None
    cv = window.pace_se * math.sqrt(window.iterations)
    return Pace(interval=1, cv=cv if math.isfinite(cv) else None)
