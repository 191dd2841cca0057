"""A launch in Optuna's words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.model import Failed, IntRange, Knob, LaunchRecord, Purpose, Stopped, figures
from tuner.stats import estimates
from tuner.study.history import History

#: On each of Optuna's trials: the number of the launch that it tells of.
LAUNCH = "launch"

#: Launches that tell something of a setting; Optuna knows no baseline and no confirmation.
_TOLD = frozenset({*estimates.TRIALS, Purpose.REPEAT})

#: Where Optuna keeps constraints: a positive value is one that does not hold.
_CONSTRAINTS = "constraints"


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {knob.name: _distribution(knob) for knob in knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    if isinstance(knob.domain, IntRange):
        assert isinstance(knob.domain.high, int)
        return IntDistribution(knob.domain.low, knob.domain.high)
    return CategoricalDistribution(knob.domain.values)


def is_told(plan: History, record: LaunchRecord) -> bool:
    """True where the launch tells of a setting in the present space."""
    if record.purpose not in _TOLD or estimates.is_excluded(record):
        return False
    return plan.contains(plan.pooling.canonical(record.setting))


def state_of(record: LaunchRecord) -> TrialState:
    """What Optuna is told that became of the launch."""
    ending = record.outcome.ending
    if isinstance(ending, Stopped):
        return TrialState.PRUNED
    return TrialState.FAIL if isinstance(ending, Failed) else TrialState.COMPLETE


def value_of(plan: History, record: LaunchRecord) -> float | None:
    """The launch's figure in the user's unit; ``None`` where it never came to its end."""
    return figures.figure(plan.spec.objective, estimates.estimate_s(record.outcome.samples))


def as_trial(plan: History, record: LaunchRecord) -> FrozenTrial:
    """The launch as Optuna's trial: its figure, in the user's unit.

    Optuna knows no bounds: a stopped launch is pruned, its projection an intermediate value at
    the last iteration that it logged. A failure is a constraint that does not hold.
    """
    ending = record.outcome.ending
    failed = isinstance(ending, Failed)
    notes: dict[str, Any] = {LAUNCH: record.number, "purpose": record.purpose.value}
    if record.outcome.window is not None:
        notes["job"] = record.outcome.window.job
    seen: dict[int, float] = {}
    if isinstance(ending, Failed):
        notes["failure"] = f"{ending.kind}: {ending.reason}"
    elif isinstance(ending, Stopped):
        progress = record.outcome.progress
        seen[progress[-1].iteration if progress else 0] = ending.projection_s
        notes |= {"bound_s": ending.bound_s, "rule": ending.rule}
    params = plan.pooling.canonical(record.setting).as_dict()
    trial = create_trial(
        state=state_of(record),
        value=value_of(plan, record),
        params=params,
        distributions=distributions(tuple(k for k in plan.knobs if k.name in params)),
        user_attrs=notes,
        system_attrs={_CONSTRAINTS: (1.0 if failed else 0.0,)},
        intermediate_values=seen,
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial
