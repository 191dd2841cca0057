"""From the pace of a window to the figure of a full cold run. Pure.

A full run of N iterations takes longer than these: the first ones are slower, there are
evaluations, and something comes after the last. A window counts none of this, so it is learnt from
the logs of the cold launches, which hold as much of it as a whole run has. A part of it takes as
long as w more iterations, whatever their pace, the rest has a fixed length: a run takes
``pace * (N + w) + fixed``. Launches of different paces tell the two parts apart, and so do the
evaluations that windows have seen. For the objective ``steady``, seconds an iteration from the end
of the warm-up on, the figure is that over N: that stretch of a run has evaluations and an end too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tuner.model import Finished, LaunchRecord, ObjectiveSpec, Progress, Setting, Stopped, Value
from tuner.search.stopper import Noise
from tuner.search.throughput import steady_s
from tuner.stats import estimates

#: An interval of the log that took this many times the usual had something else in it.
UNUSUAL = 1.5

#: What is beside the iterations of a run differs so much by chance, as the logarithm's standard
#: deviation; and how far its fixed share is from none, before anything is known of it.
BESIDE_SD, SHARE_SD = 0.2, 1.0


@dataclass(frozen=True)
class FullRunModel:
    """What is known of a full cold run of the job.

    Attributes:
        iterations: How many it makes; 0: not known.
        overhead: What it takes beside them at their pace, in iterations (w above).
        steady: The figure is of one iteration.
        incumbent_s: The figure of the best setting so far, ``None`` before there is one.
        fixed_s: What it takes beside them at any pace, s.
    """

    iterations: int = 0
    overhead: float = 0.0
    steady: bool = False
    incumbent_s: float | None = None
    fixed_s: float = 0.0

    def figure_s(self, pace_s: float) -> float:
        """The figure of a full run at this pace, s."""
        return self._clock_s(pace_s * (self.iterations + self.overhead) + self.fixed_s)

    def log(self, times_s: Sequence[float], block_length: int = 1) -> list[tuple[int, float]]:
        """(iteration, elapsed_s) of a run that warmed up as expected and then took these times.

        Each time is the mean of `block_length` iterations. The clock is that of the figure:
        forecast to the end of the run, the log leads to :meth:`figure_s` of their mean.
        """
        if not times_s:
            return []
        total_s = self.overhead * math.fsum(times_s) / len(times_s) + self.fixed_s
        log = []
        for entry, time_s in enumerate(times_s, 1):
            total_s += block_length * time_s
            log.append((block_length * entry, self._clock_s(total_s)))
        return log

    def _clock_s(self, seconds: float) -> float:
        """This many seconds of a running job on the clock of the figure."""
        return seconds / self.iterations if self.steady else seconds


def full_run_model(
    records: Iterable[LaunchRecord],
    iterations: int,
    objective: ObjectiveSpec,
    incumbent_s: float | None = None,
) -> FullRunModel:
    """What the cold launches of a study show of its full runs, and its windows of evaluations.

    Args:
        records: Launches of the study; those without a result are passed over.
        iterations: How many a full run makes.
        objective: Its clock is "elapsed" or "steady".
        incumbent_s: The figure of the best setting so far.
    """
    records = tuple(records)
    cold = [record for record in records if record.job is None and record.outcome.samples]
    steady = objective.clock == "steady"
    by_ranks = _by_ranks(records)
    groups: dict[Setting, list[tuple[float, float]]] = {}  # the pace, what is beside it, s
    for record in estimates.counted(cold) or cold:  # a warm-up rather than nothing
        log = record.outcome.progress
        pace_s = usual_s(log)
        if pace_s is None:
            continue
        pace_s *= by_ranks
        beyond = log[-1].elapsed_s / pace_s - log[-1].iteration
        if steady:  # what comes before the end of the warm-up is in no figure
            figure_s = steady_s([(entry.iteration, entry.elapsed_s) for entry in log])
            if figure_s is None:
                continue
            beyond = log[-1].iteration * (figure_s / pace_s - 1)
        groups.setdefault(record.setting, []).append((pace_s, max(0.0, pace_s * beyond)))
    if not groups:
        overhead = 0.0 if steady else Noise().warm_up_typical
        return FullRunModel(iterations, overhead, steady, incumbent_s)
    runs = [
        (statistics.median(pace_s for pace_s, _ in group), statistics.median(s for _, s in group))
        for group in groups.values()
    ]
    evaluations = [
        (w.pace_s, w.evaluation_s) for r in records if (w := r.outcome.window) is not None
    ]
    middle_s = statistics.median(pace_s for pace_s, _ in runs)
    share = _fixed_share((runs, evaluations), middle_s)
    beside_s = statistics.median(s / _grows(pace_s / middle_s, share) for pace_s, s in runs)
    overhead, fixed_s = beside_s * (1 - share) / middle_s, beside_s * share
    return FullRunModel(iterations, overhead, steady, incumbent_s, fixed_s)


def _by_ranks(records: Sequence[LaunchRecord]) -> float:
    """The pace that the ranks of a whole run told, over that of its log; 1.0: none did.

    It is less than 1 if a log holds evaluations in each entry, as one of an entry an epoch does.
    """
    run_paces = {w.job: w.run_pace_s for r in records if (w := r.outcome.window) and w.run_pace_s}
    ratios = [
        run_paces[record.number] / logged_s
        for record in records
        if record.number in run_paces and (logged_s := usual_s(record.outcome.progress))
    ]
    return min(1.0, statistics.median(ratios)) if ratios else 1.0


def _grows(pace: float, fixed_share: float) -> float:
    """How what is beside the iterations grows with their pace, which is relative to the usual."""
    return fixed_share + (1 - fixed_share) * pace


def _fixed_share(groups: Iterable[Sequence[tuple[float, float]]], usual_s: float) -> float:
    """The share of what is beside the iterations, at the usual pace, that does not grow with it.

    The maximum a posteriori, on a grid, with log-normal errors.

    Args:
        groups: Each of times (the pace, what took so long beside it, s) of one kind: the times
            of a kind are compared with each other.
        usual_s: The pace that the share is for.
    """
    kinds = [[(p / usual_s, math.log(s)) for p, s in group if s > 0] for group in groups]

    def misfit(share: float) -> float:
        total = (share / SHARE_SD) ** 2
        for kind in kinds:
            off = [log_s - math.log(_grows(pace, share)) for pace, log_s in kind]
            total += len(off) * statistics.pvariance(off) / BESIDE_SD**2 if len(off) > 1 else 0.0
        return total

    return min((step / 20 for step in range(21)), key=misfit)


def usual_s(log: Sequence[Progress]) -> float | None:
    """The pace of a run, s an iteration, without what takes `UNUSUAL` times as much.

    Returns:
        ``None`` if the log has no two entries with time between them.
    """
    intervals = [
        (after.iteration - before.iteration, after.elapsed_s - before.elapsed_s)
        for before, after in pairwise(log)
        if after.iteration > before.iteration and after.elapsed_s > before.elapsed_s
    ]
    if not intervals:
        return None
    middle = statistics.median(time_s / iterations for iterations, time_s in intervals)
    usual = [
        (iterations, time_s)
        for iterations, time_s in intervals
        if time_s / iterations <= UNUSUAL * middle
    ]
    return math.fsum(time_s for _, time_s in usual) / sum(iterations for iterations, _ in usual)


def rescaled(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """The launches with all windows on the one scale that all of these launches show.

    Each window was scaled by what was known when it was made.
    """
    if not any(record.outcome.window for record in records):
        return tuple(records)
    model = full_run_model(records, 0, objective)
    lengths: dict[Value | None, int] = {}  # by batch size
    for record in records:
        iterations = max((sample.iterations for sample in record.outcome.samples), default=0)
        batch = estimates.batch(record.setting)
        lengths[batch] = max(lengths.get(batch, 0), iterations)
    scaled_records = []
    for record in records:
        outcome, window, ending = record.outcome, record.outcome.window, record.outcome.ending
        length = lengths[estimates.batch(record.setting)]
        if window is not None and isinstance(ending, Finished):
            own_model = replace(model, iterations=ending.iterations)  # that it was scaled by
            ending = replace(ending, elapsed_s=own_model.figure_s(window.pace_s))
        elif window is not None and isinstance(ending, Stopped) and window.pace_s and length:
            own_model = replace(model, iterations=length)
            ending = with_projection(ending, own_model.figure_s(window.pace_s))
        is_new = ending is not outcome.ending
        scaled_records.append(
            replace(record, outcome=replace(outcome, ending=ending)) if is_new else record
        )
    return tuple(scaled_records)


def with_projection(stopped: Stopped, projection_s: float) -> Stopped:
    """The stopped launch with this projection; its interval is widened to hold it."""
    high_s = None if stopped.high_s is None else max(stopped.high_s, projection_s)
    low_s = min(stopped.low_s, projection_s)
    return replace(stopped, projection_s=projection_s, low_s=low_s, high_s=high_s, rule="pace")
