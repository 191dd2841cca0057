"""A launch as a trial of Optuna's, and a space as its distributions. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
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
from tuner.stats import evidence
from tuner.store.rows import LAUNCH
from tuner.study.history import History
from tuner.study.observations import is_ruled_out

#: The parameter of trials of the comparison, and its choices.
SIDE, SIDES = "side", ("reference", "best", "warm-up")


def distribution(domain: Domain) -> BaseDistribution:
    """Return a resolved domain in Optuna's words; whole numbers in equal steps are a range."""
    if isinstance(domain, IntRange):
        return IntDistribution(domain.low, int(domain.high))
    numbers = [value for value in domain.values if type(value) is int]
    steps = {after - before for before, after in pairwise(numbers)} or {1}
    if len(numbers) == len(domain.values) and len(steps) == 1 and min(steps) > 0:
        return IntDistribution(numbers[0], numbers[-1], step=min(steps))
    return CategoricalDistribution(domain.values)


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """Return the space in Optuna's words; domains are resolved."""
    return {knob.name: distribution(knob.domain) for knob in knobs}


def is_of_search(history: History, purpose: Purpose, setting: Setting) -> bool:
    """Return whether a launch is a trial of the search, with a setting of the present space.

    A launch that leaves knobs out has a part of such a setting.
    """
    if not purpose.stage.is_of_search:
        return False
    canonical = history.pooling.canonical(setting)
    if purpose.stage.may_leave_knobs_out:
        return history.contains_part(canonical)
    return history.contains(canonical)


def side(history: History, purpose: Purpose, setting: Setting) -> str:
    """Return the side of the comparison of a launch that is no trial of the search."""
    if purpose is Purpose.WARM_UP:
        return "warm-up"
    is_reference = history.pooling.canonical(setting) == history.default
    return "reference" if is_reference and purpose is not Purpose.RECORD else "best"


class TrialResult(NamedTuple):
    """A launch in Optuna's words: its state, its figure in the user's unit, its attributes."""

    state: TrialState
    value: float | None
    attributes: dict[str, Any]


def trial_result(history: History, record: LaunchRecord) -> TrialResult:
    """Return a launch of the history in Optuna's words.

    Optuna has no bounds: a stopped launch is pruned. A launch that is excluded has failed.
    """
    ending, exclusion = record.outcome.ending, record.outcome.exclusion
    attributes: dict[str, Any] = {}
    if record.purpose is not Purpose.SEARCH:
        attributes["purpose"] = record.purpose.value
    if exclusion is not None:
        attributes["failure"] = f"excluded: {exclusion.text}"
    elif isinstance(ending, Failed):
        attributes["failure"] = f"{ending.kind}: {ending.reason}"
    if "failure" in attributes:
        return TrialResult(TrialState.FAIL, None, attributes)
    if isinstance(ending, Stopped):
        return TrialResult(TrialState.PRUNED, None, attributes)
    value_s = evidence.estimate_s(record.outcome.samples)
    return TrialResult(TrialState.COMPLETE, _figure(history, value_s), attributes)


def params(history: History, setting: Setting) -> dict[str, Any]:
    """Return the setting as parameters of a trial; none if it is outside of the present space."""
    canonical = history.pooling.canonical(setting)
    if not history.contains_part(canonical):
        return {}
    chosen = (setting if history.contains(setting) else canonical).as_dict()
    # In the order in which the sampler is asked for them: some samplers build a tree of them.
    order = [knob.name for knob in parents_first(history.knobs)]
    return {name: chosen[name] for name in order if name in chosen}


def as_trial(history: History, record: LaunchRecord) -> FrozenTrial:
    """Return a launch of the search as the trial that a sampler or a pruner is shown.

    The projection of a stopped launch is an intermediate value, at the iteration of a whole launch.
    """
    state, value, attributes = trial_result(history, record)
    ending, by_iteration = record.outcome.ending, {}
    if state is TrialState.PRUNED and isinstance(ending, Stopped):
        value = _figure(history, ending.projection_s) or 0.0
        progress = record.outcome.progress
        last_iteration = progress[-1].iteration if progress else 0
        by_iteration[history.expected_iterations(record.setting) or last_iteration] = value
    values = params(history, record.setting)
    trial = create_trial(
        state=state,
        value=value,
        params=values,
        distributions=distributions(tuple(k for k in history.knobs if k.name in values)),
        user_attrs={LAUNCH: record.number, **attributes},
        intermediate_values=by_iteration,
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial


def why_not_launched(history: History, setting: Setting) -> str:
    """Return why a suggested setting is not worth a launch; empty: it is worth one."""
    canonical = history.pooling.canonical(setting)
    if canonical in history.pending:
        return "another host measures it"
    records = history.of(history.searched, canonical)
    if records:  # a trial with the same result would count it twice
        return f"measured by launch {records[-1].number}"
    if not is_ruled_out(history, canonical):
        return ""
    if broken := history.requirements.broken(canonical.as_dict()):
        return f"does not meet --require {broken[0]}"
    return "asks for too many cores, or more than what failed"


def _figure(history: History, cost: float | None) -> float | None:
    value = figures.figure(history.spec.objective, cost)
    return None if value is None else float(f"{value:.6g}")  # clocks give no more digits
