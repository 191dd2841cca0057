"""What a window came to, as the outcome of a launch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner import model
from tuner.launch.trial import JUDGED_ENTRIES, Ended
from tuner.live.measuring import Measuring
from tuner.live.readback import effects_of, observed
from tuner.live.windows import LEAST_ENDED
from tuner.model import Finished, Load, Outcome, Progress, Telemetry, Window


@dataclass(frozen=True)
class Beside:
    """What was seen beside the iterations.

    Attributes:
        started_s: What the start of the job took, s; 0.0 in all but its first window.
    """

    load: Load | None
    telemetry: Telemetry | None
    started_s: float


def is_cut_short(found: Measuring, ended: Ended | None) -> bool:
    """Whether the job ended by itself, or took no orders any more, before it had told enough."""
    if found.stopped is not None or found.refused:
        return False
    told = found.estimate.iterations
    if ended is None:
        return not found.job.server.is_open and told < LEAST_ENDED
    return _went_well(ended) and told < LEAST_ENDED


def outcome(found: Measuring, ended: Ended | None, beside: Beside) -> Outcome:
    """The outcome of a window that was not cut short.

    Args:
        found: The window.
        ended: How the job ended, ``None`` where it runs on.
        beside: What was seen beside it.
    """
    job, asked = found.job, found.asked
    ranks = found.switched.ranks if found.switched else ()
    observation = observed(job.follower.watcher.result(), ranks)
    return Outcome(
        _ending(found, ended, observation.ranks),
        wall_s=job.clock() - asked.since_s,
        exit_code=None if ended is None else ended[0].code,
        progress=_progress(found),
        observation=observation,
        # What it could not be switched to shows nothing of how that takes effect.
        effects=() if found.refused else effects_of(asked.setting, job.spec, observation, ranks),
        load=beside.load,
        telemetry=beside.telemetry,
        window=_window(found, beside.started_s),
    )


def _ending(
    found: Measuring, ended: Ended | None, ranks: tuple[model.RankView, ...]
) -> model.Ending:
    if ended is not None and not _went_well(ended):
        return found.job.begun.judged(*ended, ranks)
    if found.refused:
        return replace(found.refused, log_tail=found.job.begun.output_tail())
    if found.stopped is not None:
        return found.stopped
    expected = found.asked.expected
    return Finished(expected.figure_s(found.estimate.pace_s), expected.iterations)


def _went_well(ended: Ended) -> bool:
    exit_, reason = ended
    return exit_.code == 0 and reason is None and not exit_.stopped


def _progress(found: Measuring) -> tuple[Progress, ...]:
    log = found.asked.expected.log(found.estimate.times_s, found.estimate.each)
    some = log[:: -(len(log) // JUDGED_ENTRIES + 1)][::-1]  # the last is among them
    return tuple(Progress(iteration, elapsed_s) for iteration, elapsed_s in some)


def _window(found: Measuring, started_s: float) -> Window:
    job, told = found.job, found.estimate
    switched_s = found.switched_s or job.clock()
    middle_s = (switched_s + job.clock()) / 2
    return Window(
        job=job.number,
        live=tuple(sorted(job.can)),
        started_s=started_s,
        switch_s=switched_s - found.ordered_s,
        discarded=told.discarded,
        iterations=told.iterations,
        pace_s=told.pace_s if told.iterations else 0.0,
        pace_se=told.pace_se if told.iterations > 1 else 0.0,
        at_s=middle_s - job.started_s,
    )
