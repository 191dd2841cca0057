"""The job that runs now and what it changes of the costs, from the records alone. Pure.

So a resumed study decides as if it had never stopped.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.live.fitting import is_reachable
from tuner.model import (
    BASELINE,
    ExclusionKind,
    Failed,
    Finished,
    LaunchRecord,
    Outcome,
    Purpose,
    Setting,
    Window,
)
from tuner.search import Live
from tuner.search.throughput import startup_s
from tuner.study.cold_only_knobs import frozen
from tuner.study.history import History

#: What a switch takes before one was seen, s; 0.2 to 1.1 were, with 8 ranks on 2 cores.
SWITCH_S = 0.5

#: What a window takes of a full run before one came to its end.
SHARE = 0.3

#: No window costs nothing.
LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class Job:
    """A job that runs, as it was left after the last record."""

    number: int
    start: Setting  # (canonical) that it was started with
    live: frozenset[str]  # the knobs that it can change
    windows: tuple[LaunchRecord, ...]  # the oldest first

    def serves(self, setting: Setting) -> bool:
        """Whether a (canonical) setting can be measured in it."""
        return is_reachable(self.start, setting, self.live)


def running(plan: History) -> Job | None:
    """The job that runs now, as the records tell; ``None``: none does.

    A cold launch ends it, a failure, and a drift. In a study that retunes none any more
    (``--live off``) no job is started in place of the last one.
    """
    if not plan.records or plan.spec.live == "off":
        return None
    last = plan.records[-1].outcome
    window = last.window
    if window is None or isinstance(last.ending, Failed) or has_drifted(last):
        return None
    windows = tuple(windows_of(plan.records, window.job))
    # (a warm-up starts a job too, and is no window)
    started = next((r for r in plan.records if r.number == window.job), windows[0])
    start = BASELINE if started.purpose is Purpose.BASELINE else started.setting
    can = frozenset(window.live) - frozen(plan.records)
    return Job(window.job, plan.pooling.canonical(start), can, windows)


def has_drifted(outcome: Outcome) -> bool:
    """Whether a window is excluded because its job drifted."""
    why = outcome.exclusion
    return why is not None and why.kind is ExclusionKind.JOB_DRIFTED


def windows_of(records: Iterable[LaunchRecord], job: int) -> list[LaunchRecord]:
    """The windows of a job, the oldest first."""
    return [r for r in records if r.outcome.window is not None and r.outcome.window.job == job]


def live(plan: History) -> Live | None:
    """What running jobs change of the search's costs; ``None`` in a study without, by now."""
    if plan.spec.live == "off":
        return None
    seen = [(r, w) for r in plan.records if (w := r.outcome.window) is not None]
    if not seen:
        return None
    job = running(plan)
    windows = [window for _, window in seen]
    switches = [w.switch_s for w in windows if not w.started_s]
    started = [w.started_s for w in windows if w.started_s] or _startups_s(plan)
    shares = [_share(record, window) for record, window in seen if record.outcome.samples]
    return Live(
        knobs=frozenset(windows[-1].live) - frozen(plan.records),
        job=None if job is None else tuple(job.start.as_dict().get(k.name) for k in plan.knobs),
        startup_s=statistics.median(started) if started else 0.0,
        switch_s=statistics.median(switches) if switches else SWITCH_S,
        share=statistics.median(shares) if shares else SHARE,
    )


def _startups_s(plan: History) -> list[float]:
    """What the launches took before their own clocks began, s: a warm-up starts the first job."""
    found = (startup_s(r.outcome.progress) for r in plan.records if r.outcome.window is None)
    return [each for each in found if each is not None]


def _share(record: LaunchRecord, window: Window) -> float:
    """What a window took beside its entry, for each unit of the figure."""
    ending = record.outcome.ending
    assert isinstance(ending, Finished)
    took_s = record.outcome.wall_s - window.started_s - window.switch_s
    return max(LEAST_SHARE, took_s / ending.elapsed_s)
