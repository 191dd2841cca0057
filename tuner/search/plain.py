"""Reads any study of Optuna for the search: its trials, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.knobs import Role
from tuner.knobs.conditions import KnobAxis
from tuner.model import Purpose
from tuner.search.grid import Key
from tuner.search.launch_groups import SearchObservation
from tuner.search.pruner import projection

#: A range with more values than this is searched on a scale of this many.
MOST_VALUES = 64


@dataclass(frozen=True)
class Axis:
    """A parameter in the words of the search: a knob, and the value in Optuna of each of its own.

    Whole numbers stay as they are; other values are numbered, in order if they have one.
    """

    knob: KnobAxis
    external: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, distribution: BaseDistribution, roles: Mapping[str, Role]) -> Axis:
        """Return the axis of a parameter."""
        if isinstance(distribution, CategoricalDistribution):
            choices = tuple(distribution.choices)
            numbers = tuple(choice for choice in choices if type(choice) is int)
            if len(numbers) == len(choices):
                return cls(KnobAxis(name, numbers, roles.get(name)), choices)
            # Only numbers count cores, so other choices have no role.
            return cls(KnobAxis(name, tuple(f"{n}" for n in range(len(choices)))), choices)
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        scale = _scale(distribution)
        if isinstance(distribution, IntDistribution) and (scale[0] > 0 or name in roles):
            return cls(KnobAxis(name, scale, roles.get(name)), scale)
        # They begin below 0, so that the search counts steps, not doublings.
        steps = tuple(range(-1, len(scale) - 1))
        return cls(KnobAxis(name, steps, roles.get(name)), scale)

    def value(self, internal: Any) -> Any:
        """Return the parameter's value for one of the knob's."""
        return self.external[self.knob.values.index(internal)]

    def nearest(self, external: Any) -> Any:
        """Return the knob's value for one of the parameter's, which may lie between two."""
        if external in self.external:
            return self.knob.values[self.external.index(external)]
        places = range(len(self.external))
        return self.knob.values[min(places, key=lambda n: abs(self.external[n] - external))]

    def holds(self, external: Any) -> bool:
        """Return whether the value lies in the range, or among the choices."""
        if external in self.external:
            return True
        are_numbers = all(isinstance(value, int | float) for value in (external, *self.external))
        return are_numbers and self.external[0] <= external <= self.external[-1]


def _scale(distribution: FloatDistribution | IntDistribution) -> tuple[Any, ...]:
    """Return the values of a range; of a long one this many, evenly or in equal ratios."""
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is not None and not distribution.log:
        number = math.floor((high - low) / step + 1e-9) + 1
        places = np.linspace(0, number - 1, min(number, MOST_VALUES)).round()
        values = [low + int(place) * step for place in places]
    else:
        spread = np.geomspace if distribution.log else np.linspace
        values = [float(value) for value in spread(low, high, MOST_VALUES)]
    convert = round if isinstance(distribution, IntDistribution) else float
    return tuple(dict.fromkeys(min(high, max(low, convert(value))) for value in values))


def observations(
    trials: Sequence[FrozenTrial], direction: StudyDirection, axes: Sequence[Axis]
) -> list[SearchObservation]:
    """Return what the trials in this space came to, the oldest first, then the running ones.

    A running one counts as the slowest so far, so that others are proposed meanwhile (the
    "constant liar" of Ginsbourger, Le Riche & Carraro, 2010).
    """
    costs = _costs(trials, direction)
    highest = max(costs.values(), default=1.0)
    launches: list[SearchObservation] = []
    tried: set[Key] = set()
    for trial in sorted(trials, key=lambda t: (t.state is TrialState.RUNNING, t.number)):
        if any(axis.knob.name not in trial.params for axis in axes):
            continue
        values = [trial.params[axis.knob.name] for axis in axes]
        if not all(axis.holds(value) for axis, value in zip(axes, values, strict=True)):
            continue
        key = tuple(axis.nearest(value) for axis, value in zip(axes, values, strict=True))
        purpose = Purpose.REPEAT if key in tried else Purpose.SEARCH
        tried.add(key)
        launch = SearchObservation(key, "failed", purpose, wall_s=1.0)
        if trial.number in costs:
            launch = replace(launch, ending="finished", elapsed_s=costs[trial.number])
        elif trial.state is TrialState.PRUNED:
            launch = replace(launch, ending="killed", projection_s=projection(trial) or highest)
        elif trial.state is TrialState.RUNNING:
            launch = replace(launch, ending="finished", elapsed_s=highest, is_running=True)
        launches.append(launch)
    return launches


def _costs(trials: Sequence[FrozenTrial], direction: StudyDirection) -> dict[int, float]:
    """Return a figure above 0 for each complete trial, the smaller the better."""
    values = {
        trial.number: trial.value
        for trial in trials
        if trial.state is TrialState.COMPLETE
        and trial.value is not None
        and math.isfinite(trial.value)
    }
    if not values:
        return {}
    sign = -1.0 if direction is StudyDirection.MAXIMIZE else 1.0
    if min(values.values()) > 0:
        return {number: value**sign for number, value in values.items()}
    spread, middle = float(np.std(list(values.values()))) or 1.0, np.median(list(values.values()))
    scaled = {number: sign * float(value - middle) / spread for number, value in values.items()}
    return {number: math.exp(max(-50.0, min(50.0, value))) for number, value in scaled.items()}
