"""The rules that may stop a launch before its end.

A rule is a function here. Its name stands in `RULES`, and in the rows of the table of stages
(:mod:`tuner.model.stages`) whose launches it may stop. It makes the stopper of one launch, or
``None`` if the launch runs to its end as far as this rule is concerned. The rules hold for every
sampler and pruner, for launches and for windows of a running job, and in a replay.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tuner.launch.clocks import stopper_by
from tuner.model import Purpose, Setting, StudySpec
from tuner.search.stopper import (
    PATIENCE,
    EarlyStopper,
    FirstOf,
    Limit,
    Noise,
    ProjectionStopper,
    TimeLimitStopper,
)
from tuner.search.throughput import startup_s
from tuner.study.history import History

#: The usual start-up is the median of this many of the latest launches.
RECENT = 20


@dataclass(frozen=True)
class NextLaunch:
    """A launch before it starts, as the rules see it, and the study so far."""

    purpose: Purpose
    setting: Setting
    history: History
    by_pruner: EarlyStopper | None = None  # stops the launch if the study's pruner prunes its trial


def stopper(launch: NextLaunch) -> EarlyStopper | None:
    """Return what stops the launch by the first of its stage's rules that applies.

    ``None``: the launch runs to its end.
    """
    stoppers = (RULES[name](launch) for name in launch.purpose.stage.rules)
    present = tuple(stopper for stopper in stoppers if stopper is not None)
    return FirstOf(present) if present else None


def pruner(launch: NextLaunch) -> EarlyStopper | None:
    """Stop what the study's pruner prunes."""
    return launch.by_pruner


def max_time(launch: NextLaunch) -> EarlyStopper | None:
    """Stop a launch of the search that will take longer than ``--max-time``, others at that time.

    Launches of the comparison run as long as that, so that the verdict has a bound to use.
    """
    spec, iterations = launch.history.spec, launch.history.expected_iterations(launch.setting)
    limit = max_cost(spec, iterations)
    if limit is None:
        return None
    usual_s = [
        seconds
        for record in launch.history.records[-RECENT:]
        if record.job is None and (seconds := startup_s(record.outcome.progress)) is not None
    ]
    # Before its log has an entry, a launch may start for several usual start-ups; as long as nobody
    # knows what is usual, for as long as it may take after that.
    startup_limit_s = PATIENCE * statistics.median(usual_s) if usual_s else limit
    rule: EarlyStopper = TimeLimitStopper(limit, iterations, startup_limit_s)
    if launch.purpose.stage.is_of_search:
        # The limit is this launch's, not its setting's: how much runs differ does not matter.
        noise = Noise(run_sd=0.0, startup_s=startup_limit_s / PATIENCE)
        rule = ProjectionStopper(Limit(limit), noise, iterations)
    return stopper_by(spec.objective.clock, rule, iterations)


def max_cost(spec: StudySpec, iterations: int | None) -> float | None:
    """Return what a launch costs that takes ``--max-time``; ``None``: nothing bounds it.

    A steady state, which is the time of an iteration, is bounded once it is known how many
    ``iterations`` a full launch does.
    """
    if spec.max_time_s is None or spec.objective.clock != "steady":
        return spec.max_time_s
    return spec.max_time_s / iterations if iterations else None


#: The rules by their names in the table of stages.
RULES: dict[str, Callable[[NextLaunch], EarlyStopper | None]] = {
    "pruner": pruner,
    "max_time": max_time,
}
