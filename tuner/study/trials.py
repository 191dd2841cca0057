"""A launch as a trial of Optuna's study, and a space as its distributions. Pure."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.knobs.conditions import parents_first
from tuner.model import (
    Domain,
    Failed,
    IntRange,
    Knob,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
    figures,
)
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.policy import is_ruled_out

#: On each of Optuna's trials: the number of the launch that it tells of.
LAUNCH = "launch"

#: The purposes of launches that are trials; Optuna knows no baseline and no confirmation.
SEARCHED = frozenset({*estimates.TRIALS, Purpose.REPEAT, Purpose.SIMPLIFY})


def distribution(domain: Domain) -> BaseDistribution:
    """A resolved domain in Optuna's words; whole numbers in equal steps are a range."""
    if isinstance(domain, IntRange):
        return IntDistribution(domain.low, int(domain.high))
    numbers = [value for value in domain.values if type(value) is int]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) == len(domain.values) and len(steps) == 1 and min(steps) > 0:
        return IntDistribution(numbers[0], numbers[-1], step=min(steps))
    return CategoricalDistribution(domain.values)


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {knob.name: distribution(knob.domain) for knob in knobs}


def is_trial(history: History, record: LaunchRecord) -> bool:
    """True if the launch is a trial in the present space."""
    return record.purpose in SEARCHED and is_possible(history, record.purpose, record.setting)


def is_possible(history: History, purpose: Purpose, setting: Setting) -> bool:
    """True if the setting is of the present space, or for this purpose a part of one."""
    canonical = history.pooling.canonical(setting)
    if purpose is Purpose.SIMPLIFY:
        return history.contains_part(canonical)
    return history.contains(canonical)


def as_trial(history: History, record: LaunchRecord) -> FrozenTrial:
    """The launch as Optuna's trial: its figure, in the user's unit.

    Optuna knows no bounds: a stopped launch is pruned, its projection an intermediate value at
    the iteration that a launch ends with. A launch that is excluded has failed, too.
    """
    ending, exclusion = record.outcome.ending, record.outcome.exclusion
    value = figures.figure(history.spec.objective, estimates.estimate_s(record.outcome.samples))
    state = TrialState.COMPLETE
    notes: dict[str, Any] = {LAUNCH: record.number}
    if record.purpose is not Purpose.SEARCH:
        notes["purpose"] = record.purpose.value
    if record.job is not None:
        notes["job"] = record.job
    seen: dict[int, float] = {}
    if exclusion is not None:
        state, notes["failure"] = TrialState.FAIL, f"excluded: {exclusion.text}"
    elif isinstance(ending, Failed):
        state, notes["failure"] = TrialState.FAIL, f"{ending.kind}: {ending.reason}"
    elif isinstance(ending, Stopped):
        state, value = (
            TrialState.PRUNED,
            figures.figure(history.spec.objective, ending.projection_s),
        )
        progress = record.outcome.progress
        reached = progress[-1].iteration if progress else 0
        seen[history.expected_iterations(record.setting) or reached] = _rounded(value or 0.0)
        notes["stopped"] = {"bound_s": ending.bound_s, "rule": ending.rule}
    canonical = history.pooling.canonical(record.setting)
    chosen = (record.setting if history.contains(record.setting) else canonical).as_dict()
    # In the order in which they are asked for: some samplers build a tree of them.
    order = [knob.name for knob in parents_first(history.knobs)]
    params = {name: chosen[name] for name in order if name in chosen}
    trial = create_trial(
        state=state,
        value=None if value is None or state is TrialState.FAIL else _rounded(value),
        params=params,
        distributions=distributions(tuple(k for k in history.knobs if k.name in params)),
        user_attrs=notes,
        intermediate_values=seen,
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial


def instead_of_a_launch(history: History, setting: Setting) -> FrozenTrial | None:
    """What a trial is told that is not worth a launch; ``None``: it is worth one."""
    canonical = history.pooling.canonical(setting)
    if canonical in history.pending:
        return taken()
    known = history.of(history.searched, canonical)
    if known:  # a copy of what that came to would count twice
        return failed("redrawn", f"measured by launch {known[-1].number}")
    if not is_ruled_out(history, canonical):
        return None
    if broken := history.requirements.broken(canonical.as_dict()):
        return failed("redrawn", f"does not meet --require {broken[0]}")
    return failed("redrawn", "asks for too many cores, or more than what failed")


def taken() -> FrozenTrial:
    """What a trial is told whose setting another host measures."""
    return failed("redrawn", "another host measures it")


def failed(name: str, why: str) -> FrozenTrial:
    """A trial that failed, with a note of this name."""
    return create_trial(state=TrialState.FAIL, user_attrs={name: why})


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")  # a clock knows no more digits


def is_same(told: FrozenTrial, wanted: FrozenTrial | None) -> bool:
    """True if both say the same of a launch."""
    if wanted is None or (told.state, told.params) != (wanted.state, wanted.params):
        return False
    if told.value is None or wanted.value is None:
        return told.value is wanted.value
    return math.isclose(told.value, wanted.value, rel_tol=1e-6)


def space_text(history: History) -> str:
    """The space of the trials, to be compared."""
    space = distributions(history.knobs)
    texts: dict[str, object] = {name: distribution_to_json(d) for name, d in space.items()}
    conditions = {knob.name: knob.when for knob in history.knobs if knob.when}
    return json.dumps(texts | ({"{when}": conditions} if conditions else {}))
