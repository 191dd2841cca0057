"""Derives the figure of a full cold run from the pace of a window. Pure.

A full run of N iterations takes longer than these: the first ones are slower, there are
evaluations, and something comes after the last. A window counts none of this overhead. The logs of
the cold launches show it: it takes as long as w more iterations. For the objective ``steady``,
seconds an iteration from the end of the warm-up on, the figure is that of N + w iterations over N:
that stretch of a run has evaluations and an end too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from tuner.model import Finished, LaunchRecord, ObjectiveSpec, Progress, Setting, Stopped
from tuner.search.stopper import Noise
from tuner.search.throughput import steady_s
from tuner.stats import evidence

#: An interval of the log that took this many times the median had more than iterations in it.
UNUSUAL_TIMES = 1.5

#: The log of a window has at most so many entries: more say the same.
MOST_ENTRIES = 200


@dataclass(frozen=True)
class FullRunModel:
    """What is known of a full cold run of the job.

    It makes so many ``iterations`` (0: not known), and all else in it takes as long as
    ``overhead_iterations`` more. With ``steady`` its figure is of one iteration. ``incumbent_s`` is
    the figure of the best setting so far, ``None`` before there is one.
    """

    iterations: int = 0
    overhead_iterations: float = 0.0
    steady: bool = False
    incumbent_s: float | None = None

    def figure_s(self, pace_s: float) -> float:
        """Return the figure of a full run at this pace, s."""
        return self._clock_s(pace_s * (self.iterations + self.overhead_iterations))

    def log(self, times_s: Sequence[float]) -> list[tuple[int, float]]:
        """Return (iteration, elapsed_s) of a run that warmed up as expected, then took these times.

        The clock is that of the figure: forecast to the end of the run, the log leads to
        :meth:`figure_s` of their mean. Of many entries some are left out, but not the last.
        """
        if not times_s:
            return []
        warm_up_s = self.overhead_iterations * math.fsum(times_s) / len(times_s)
        elapsed_s = list(accumulate(times_s, initial=warm_up_s))
        step = (len(times_s) - 1) // MOST_ENTRIES + 1
        iterations = range(len(times_s), 0, -step)  # from the last one back: it is kept
        return [(n, self._clock_s(elapsed_s[n])) for n in reversed(iterations)]

    def _clock_s(self, seconds: float) -> float:
        """Return this many seconds of a running job on the clock of the figure."""
        return seconds / self.iterations if self.steady else seconds


def full_run_model(
    records: Iterable[LaunchRecord],
    iterations: int,
    objective: ObjectiveSpec,
    incumbent_s: float | None = None,
) -> FullRunModel:
    """Return what the cold launches of a study show of its full runs.

    The objective's clock is "elapsed" or "steady".
    """
    cold = [record for record in records if record.job is None and record.outcome.samples]
    steady = objective.clock == "steady"
    overheads: dict[Setting, list[float]] = {}
    for record in evidence.counted(cold) or cold:  # a warm-up rather than nothing
        log = record.outcome.progress
        pace_s = usual_s(log)
        if pace_s is None:
            continue
        overhead = log[-1].elapsed_s / pace_s - log[-1].iteration
        if steady:  # the figure leaves out the warm-up
            figure_s = steady_s([(entry.iteration, entry.elapsed_s) for entry in log])
            if figure_s is None:
                continue
            overhead = log[-1].iteration * (figure_s / pace_s - 1)
        overheads.setdefault(record.setting, []).append(max(0.0, overhead))
    typical = 0.0 if steady else Noise().warm_up_typical  # before a log shows it
    if overheads:
        typical = statistics.median(map(statistics.median, overheads.values()))
    return FullRunModel(iterations, typical, steady, incumbent_s)


def usual_s(log: Sequence[Progress]) -> float | None:
    """Return the pace of a run, s an iteration, without intervals `UNUSUAL_TIMES` as long.

    ``None``: the log has no two entries with time between them.
    """
    intervals = [
        (after.iteration - before.iteration, after.elapsed_s - before.elapsed_s)
        for before, after in pairwise(log)
        if after.iteration > before.iteration and after.elapsed_s > before.elapsed_s
    ]
    if not intervals:
        return None
    most_s = UNUSUAL_TIMES * statistics.median(time_s / n for n, time_s in intervals)
    usual = [(n, time_s) for n, time_s in intervals if time_s <= most_s * n]
    return math.fsum(time_s for _, time_s in usual) / sum(n for n, _ in usual)


def rescaled(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """Return the launches with all windows on the one scale that all of these launches show.

    Each window was scaled by the launches before it.
    """
    if not any(record.outcome.window for record in records):
        return tuple(records)
    model = full_run_model(records, iterations=0, objective=objective)  # each has its own below
    lengths: dict[evidence.StepSize, int] = {}  # the iterations of a full run
    for record in records:
        iterations = max((sample.iterations for sample in record.outcome.samples), default=0)
        size = evidence.step_size(record.setting)
        lengths[size] = max(lengths.get(size, 0), iterations)
    return tuple(_rescaled(r, model, lengths[evidence.step_size(r.setting)]) for r in records)


def _rescaled(record: LaunchRecord, model: FullRunModel, run_iterations: int) -> LaunchRecord:
    outcome, window, ending = record.outcome, record.outcome.window, record.outcome.ending
    if window is None:
        return record
    if isinstance(ending, Finished):  # its iterations are those that it was scaled to
        own_model = replace(model, iterations=ending.iterations)
        ending = replace(ending, elapsed_s=own_model.figure_s(window.pace_s))
    elif isinstance(ending, Stopped) and window.pace_s and run_iterations:
        own_model = replace(model, iterations=run_iterations)
        ending = with_projection(ending, own_model.figure_s(window.pace_s))
    return replace(record, outcome=replace(outcome, ending=ending))


def with_projection(stopped: Stopped, projection_s: float) -> Stopped:
    """Return the stopped launch with this projection; its interval is widened to hold it."""
    high_s = None if stopped.high_s is None else max(stopped.high_s, projection_s)
    low_s = min(stopped.low_s, projection_s)
    return replace(stopped, projection_s=projection_s, low_s=low_s, high_s=high_s, rule="pace")
