"""What the search reads of any study of Optuna: its trials, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.knobs import Role
from tuner.knobs.guesses import GuessedKnob, guesses
from tuner.model import Lesson, Purpose, Setting, Shown
from tuner.search.engine import Search
from tuner.search.history import SearchObservation, grouped
from tuner.search.options import Options
from tuner.search.problem import Problem, search_over
from tuner.search.pruner import projection
from tuner.search.regions import excessive, infeasible
from tuner.search.space import Grid, Key, KnobAxis, Space

#: A range with more values than this is searched on a scale of this many.
MOST_VALUES = 64

#: The number of trials is the study's business, not the sampler's.
_ENDLESS = 10**9


class PlainStudy:
    """Reads a study that minimises or maximises one value.

    Args: See :class:`tuner.search.RuntimeSampler`.
    """

    def __init__(
        self,
        *,
        cores: int | None,
        ranks: int,
        roles: Mapping[str, Role] | None,
        oversubscribe: float | None,
        precision: float,
        min_gain: float,
        seed: int | None,
        learn_from: Study | Sequence[FrozenTrial],
        earlier_cores: int | None,
        earlier_ranks: int | None,
    ) -> None:
        if (cores is not None and cores < 1) or ranks < 1:
            raise ValueError(f"cores={cores} and ranks={ranks} must be at least 1")
        if not 0 < precision < 1 or (oversubscribe is not None and oversubscribe <= 0):
            raise ValueError(
                f"precision={precision} must be a share above 0 and oversubscribe={oversubscribe}"
                " above 0"
            )
        if not 0 <= min_gain < 1:
            raise ValueError(f"min_gain={min_gain} must be a share of at least 0, and below 1")
        if unknown := set((roles or {}).values()) - set(get_args(Role)):
            raise ValueError(f"unknown roles: {unknown}; known: {', '.join(get_args(Role))}")
        self._cores, self._ranks, self._roles = cores, ranks, dict(roles or {})
        self._most_demand = None if cores is None else oversubscribe
        self._options = Options(trials=_ENDLESS, precision=precision, until=min_gain)
        trials = learn_from.get_trials() if isinstance(learn_from, Study) else learn_from
        self._earlier = tuple(trials)
        self._earlier_cores = earlier_cores or cores or 1
        self._earlier_ranks = earlier_ranks or ranks
        self.seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._intersection = IntersectionSearchSpace(include_pruned=True)
        self._search: Search | None = None
        self._last: tuple[object, Problem] | None = None

    def read(self, study: Study) -> Problem:
        """The study's problem: the parameters that every trial has, and that have a choice.

        Raises:
            ValueError: The study has several objectives.
        """
        _require_one_objective(study)
        trials = study.get_trials(deepcopy=False)
        state = self.seed, tuple((t._trial_id, t.state, len(t.params)) for t in trials)
        if self._last is None or self._last[0] != state:
            self._last = state, self._problem(study, trials)
        return self._last[1]

    def _problem(self, study: Study, trials: Sequence[FrozenTrial]) -> Problem:
        common = self._intersection.calculate(study)
        distributions = {n: values for n, values in common.items() if not values.single()}
        axes = [_Axis.of(name, values, self._roles) for name, values in distributions.items()]
        observations = _observations(trials, study.direction, axes) if axes else []
        if not any(launch.ending == "finished" for launch in observations):
            return Problem(None)
        space = Space(
            tuple(axis.knob for axis in axes),
            ranks_per_host=self._ranks,
            cores=self._cores or 1,
            baseline=observations[0].setting,  # none is apart: one that was tried stands for it
            guesses=self._guesses(axes),
            most_demand=self._most_demand,
        )

        def params(key: Key) -> dict[str, Any]:
            return {axis.knob.name: axis.value(v) for axis, v in zip(axes, key, strict=True)}

        lesson = self._lesson(axes, space, study.direction)
        self._search = search_over(self._search, space, self._options, self.seed, lesson)
        return Problem(self._search, observations, params, lambda: distributions)

    def earlier_value(
        self, study: Study, param_name: str, param_distribution: BaseDistribution
    ) -> tuple[bool, Any]:
        """Whether the earlier study has a value for a parameter of the first trial, and which.

        Raises:
            ValueError: The study has several objectives.
        """
        _require_one_objective(study)
        cost = _costs(self._earlier, study.direction)
        if cost and len(study.get_trials(deepcopy=False)) == 1:
            number = min(cost, key=lambda each: cost[each])
            best = next(each for each in self._earlier if each.number == number)
            axis = _Axis.of(param_name, param_distribution, self._roles)
            if param_name in best.params:
                value = best.params[param_name]
                is_count = axis.is_number(value) and axis.knob.role in {"threads", "workers"}
                if self._cores is not None and is_count:
                    share = self._cores / self._ranks
                    value *= share * self._earlier_ranks / self._earlier_cores
                if axis.is_number(value) or value in axis.external:
                    return True, axis.value(axis.nearest(value))
        return False, None

    def _lesson(
        self, axes: Sequence[_Axis], space: Space, direction: StudyDirection
    ) -> Lesson | None:
        """The earlier trials in terms of this space; what lies outside of it is left out."""
        cost = _costs(self._earlier, direction)
        if not cost:
            return None
        grid = Grid(replace(space, ranks_per_host=self._earlier_ranks, cores=self._earlier_cores))
        best, names, shown = min(cost.values()), {axis.knob.name for axis in axes}, []
        for each in self._earlier:
            own = [axis for axis in axes if axis.knob.name in each.params]
            if not all(axis.holds(each.params[axis.knob.name]) for axis in own):
                continue
            there = {axis.knob.name: axis.nearest(each.params[axis.knob.name]) for axis in own}
            setting = Setting.of(there | dict.fromkeys(each.params.keys() - names, "another"))
            key = [there.get(knob.name, knob.values[0]) for knob in space.knobs]
            demand = float(grid.demand(grid.rows([tuple(key)]))[0])
            heading_for = projection(each)
            if each.number in cost:
                shown.append(Shown(setting, math.log(cost[each.number] / best), 0.0, demand))
            elif each.state is TrialState.PRUNED and heading_for:
                shown.append(Shown(setting, math.log(heading_for / best), 0.3, demand))
            elif each.state is TrialState.FAIL:
                shown.append(Shown(setting, None))
        return Lesson("", tuple(shown))

    def _guesses(self, axes: Sequence[_Axis]) -> tuple[Key, ...]:
        """What to launch first, if the parameters say how many cores they use."""
        if self._cores is None or not any(axis.knob.role for axis in axes):
            return ()
        knobs = [
            GuessedKnob(axis.knob.name, axis.knob.role, axis.external, axis.external[0])
            for axis in axes
        ]
        share = max(1, self._cores // self._ranks)
        settings = guesses(knobs, share)
        return tuple(
            dict.fromkeys(
                tuple(axis.nearest(setting[axis.knob.name]) for axis in axes)
                for setting in settings
            )
        )


def _require_one_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError("RuntimeSampler optimizes one objective; this study has several")


@dataclass(frozen=True)
class _Axis:
    """A parameter as the search sees it: a knob, and what each of its values is in Optuna.

    Whole numbers are themselves; others are numbered, in order if they have one.
    """

    knob: KnobAxis
    external: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, distribution: BaseDistribution, roles: Mapping[str, Role]) -> _Axis:
        if isinstance(distribution, CategoricalDistribution):
            choices = tuple(distribution.choices)
            numbers = tuple(each for each in choices if type(each) is int)
            if len(numbers) == len(choices):
                return cls(KnobAxis(name, numbers, roles.get(name)), choices)
            # Only numbers count cores: a role of others says nothing.
            return cls(KnobAxis(name, tuple(f"{n}" for n in range(len(choices)))), choices)
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        scale = _scale(distribution)
        if isinstance(distribution, IntDistribution) and (scale[0] > 0 or name in roles):
            return cls(KnobAxis(name, scale, roles.get(name)), scale)
        # From below 0 on: the search then counts steps, not doublings.
        steps = tuple(range(-1, len(scale) - 1))
        return cls(KnobAxis(name, steps, roles.get(name)), scale)

    def value(self, internal: Any) -> Any:
        """The parameter's value for one of the knob's."""
        return self.external[self.knob.values.index(internal)]

    def nearest(self, external: Any) -> Any:
        """The knob's value for one of the parameter's, which may lie between two of the scale."""
        if external in self.external:
            return self.knob.values[self.external.index(external)]
        places = range(len(self.external))
        return self.knob.values[min(places, key=lambda n: abs(self.external[n] - external))]

    def holds(self, external: Any) -> bool:
        """Whether the value lies in the range, or among the choices."""
        if external in self.external:
            return True
        return self.is_number(external) and self.external[0] <= external <= self.external[-1]

    def is_number(self, external: Any) -> bool:
        """Whether the value and those of the parameter are numbers."""
        return all(isinstance(each, int | float) for each in (external, *self.external))


def _scale(distribution: FloatDistribution | IntDistribution) -> tuple[Any, ...]:
    """The values of a range; of a long one this many, evenly or in equal ratios."""
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is not None and not distribution.log:
        number = math.floor((high - low) / step + 1e-9) + 1
        places = np.unique(np.linspace(0, number - 1, min(number, MOST_VALUES)).round().astype(int))
        found = [low + int(place) * step for place in places]
    else:
        spread = np.geomspace if distribution.log else np.linspace
        found = [float(each) for each in spread(low, high, MOST_VALUES)]
    if isinstance(distribution, IntDistribution):
        return tuple(dict.fromkeys(min(high, max(low, round(each))) for each in found))
    return tuple(dict.fromkeys(min(high, max(low, float(each))) for each in found))


def _observations(
    trials: Sequence[FrozenTrial], direction: StudyDirection, axes: Sequence[_Axis]
) -> list[SearchObservation]:
    """What the trials in this space came to, the oldest first, then the running ones.

    A running one counts as the slowest so far, so that others are proposed meanwhile (the
    "constant liar" of Ginsbourger, Le Riche & Carraro, 2010).
    """
    cost = _costs(trials, direction)
    worst = max(cost.values(), default=1.0)
    found: list[SearchObservation] = []
    known: set[Key] = set()
    for each in sorted(trials, key=lambda t: (t.state is TrialState.RUNNING, t.number)):
        if not all(
            axis.knob.name in each.params and axis.holds(each.params[axis.knob.name])
            for axis in axes
        ):
            continue
        key = tuple(axis.nearest(each.params[axis.knob.name]) for axis in axes)
        purpose = Purpose.REPEAT if key in known else Purpose.SEARCH
        known.add(key)
        seen = SearchObservation(key, "failed", purpose, wall_s=1.0)
        if each.number in cost:
            seen = replace(seen, ending="finished", elapsed_s=cost[each.number])
        elif each.state is TrialState.PRUNED:
            said = projection(each)
            seen = replace(seen, ending="killed", projection_s=said if said else worst)
        elif each.state is TrialState.RUNNING:
            seen = replace(seen, ending="finished", elapsed_s=worst)
        found.append(seen)
    return found


def _costs(trials: Sequence[FrozenTrial], direction: StudyDirection) -> dict[int, float]:
    """A figure above 0 for each complete trial, the smaller the better."""
    values = {
        each.number: each.value
        for each in trials
        if each.state is TrialState.COMPLETE and each.value is not None
    }
    finite = {number: value for number, value in values.items() if math.isfinite(value)}
    if not finite:
        return {}
    lower_is_better = direction is not StudyDirection.MAXIMIZE
    if min(finite.values()) > 0:
        return {n: v if lower_is_better else 1 / v for n, v in finite.items()}
    spread = float(np.std(list(finite.values()))) or 1.0
    sign = 1.0 if lower_is_better else -1.0
    middle = float(np.median(list(finite.values())))
    return {
        n: math.exp(max(-50.0, min(50.0, sign * (v - middle) / spread))) for n, v in finite.items()
    }


def another(search: Search, seen: Sequence[SearchObservation]) -> Key | None:
    """What to try if nothing promises anything: what was not tried, else the best again."""
    groups = grouped(seen)
    grid, rng = Grid(search.space), np.random.default_rng([search.seed, len(seen)])
    rows = rng.integers(grid.sizes, size=(MOST_VALUES, len(grid.sizes)))
    rows = rows[~(infeasible(grid, rows, groups) | excessive(grid, rows))]
    new = (key for row in rows if (key := grid.key(row)) not in groups)
    return next(new, None) or search.best(seen) or (seen[0].setting if seen else None)
