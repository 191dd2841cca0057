"""The search as a sampler of Optuna: it decides what is launched next, in ``tune`` and elsewhere.

study = optuna.create_study(sampler=RuntimeSampler(cores=8, roles={"threads": "threads"}))
study.optimize(objective, n_trials=50)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.knobs import Role
from tuner.knobs.guesses import GuessedKnob, guesses
from tuner.search.engine import Done
from tuner.search.history import grouped
from tuner.search.options import Options
from tuner.search.plain import MOST_VALUES, Axis, costs, lesson, observations
from tuner.search.problem import Problem, Suggestion, search_over
from tuner.search.regions import ruled_out
from tuner.search.space import Grid, Key, Space

#: The number of trials is the study's business, not the sampler's.
_ENDLESS = 10**9


class RuntimeSampler(BaseSampler):
    """A Gaussian process over the settings; made for times that scatter by a few per cent.

    It repeats what may be the best, so that no lucky run wins, and counts a pruned trial as
    what it was heading for (:class:`~tuner.search.pruner.RacePruner` says that). A setting that
    failed is not proposed again, nor is one that runs. Values above 0 are compared by their
    ratios, others by their differences. One objective only.

    Trials of an earlier study, of the same program with other sizes or on another machine, are a
    prior, and its best is the first trial; how far they are trusted follows from the new trials.

    Args:
        cores: CPU cores of a host. With ``roles`` nothing is proposed that asks for more than
            ``oversubscribe`` times as many.
        ranks: Processes on a host that each use the threads and workers.
        roles: Which parameters count cores: ``threads`` (of a process), ``workers`` (its loader
            processes), ``worker_threads`` (of each of those).
        oversubscribe: See ``cores``; ``None``: no limit.
        precision: Values that differ by less than this share count as equal.
        min_gain: The search is over once going on is expected to gain less than this share
            (:class:`~tuner.search.terminator.RuntimeTerminator`).
        seed: The same seed and trials give the same proposals.
        learn_from: An earlier study or its trials, of the same objective.
        earlier_cores: What `cores` was there; the same by default.
        earlier_ranks: And `ranks`.
        read: Says what a study comes to, in place of its trials' parameters and values; all other
            arguments but ``seed`` are then without effect. ``tuner.study.Reader()`` reads what
            ``tune`` has written: what a launch started with, where it was heading, what a setting
            costs to reach in a running job.

    Raises:
        ValueError: A number is out of its range, or a role is unknown.
    """

    def __init__(
        self,
        *,
        cores: int | None = None,
        ranks: int = 1,
        roles: Mapping[str, Role] | None = None,
        oversubscribe: float | None = 4.0,
        precision: float = 0.02,
        min_gain: float = 0.01,
        seed: int | None = None,
        learn_from: Study | Sequence[FrozenTrial] = (),
        earlier_cores: int | None = None,
        earlier_ranks: int | None = None,
        read: Callable[[Study], Problem] | None = None,
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
        self._earlier_cores, self._earlier_ranks = (
            earlier_cores or cores or 1,
            earlier_ranks or ranks,
        )
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._read = read or self._problem
        self._intersection = IntersectionSearchSpace(include_pruned=True)
        self._independent = RandomSampler(self._seed)
        self._last: tuple[object, Problem] | None = None
        self._chosen: tuple[int, Mapping[str, Any]] = (-1, {})  # for the trial asked for last

    def reseed_rng(self) -> None:
        """Take another seed: processes that share a study must not propose the same."""
        self._seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._independent.reseed_rng()

    def next(self, study: Study) -> Suggestion | Done:
        """What is launched next, and what for; or why the search is over.

        Raises:
            ValueError: The study has several objectives.
        """
        return self._read(study).next

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The parameters of the next setting; none of a trial that was enqueued.

        Raises:
            ValueError: The study has several objectives.
        """
        if "fixed_params" in trial.system_attrs:
            return {}
        problem = self._read(study)
        distributions, params = problem.distributions(), self._setting(problem)
        self._chosen = trial._trial_id, params
        return {name: distributions[name] for name in params}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The setting that is expected to gain most for its cost.

        Raises:
            ValueError: The study has several objectives.
        """
        if not search_space:
            return {}
        trial_id, params = self._chosen
        if trial_id != trial._trial_id:
            params = self._setting(self._read(study))
        return {name: params[name] for name in search_space if name in params}

    def _setting(self, problem: Problem) -> Mapping[str, Any]:
        """The parameters of the next launch; where the search is over, of any."""
        if isinstance(problem.next, Suggestion):
            return problem.next.params
        if problem.search is None:
            return {}
        key = _another(problem)
        return {} if key is None else problem.params(key)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value of a parameter that not every trial has, or of the first trial.

        The first trial takes the best value of the earlier study; a number of threads or workers as
        many times as there are more cores for each rank.

        Raises:
            ValueError: The study has several objectives.
        """
        _require_one_objective(study)
        cost = costs(self._earlier, study.direction)
        if cost and len(study.get_trials(deepcopy=False)) == 1:
            number = min(cost, key=lambda number: cost[number])
            best = next(trial for trial in self._earlier if trial.number == number)
            axis = Axis.of(param_name, param_distribution, self._roles)
            if param_name in best.params:
                value = best.params[param_name]
                is_count = axis.is_number(value) and axis.knob.role in {"threads", "workers"}
                if self._cores is not None and is_count:
                    share = self._cores / self._ranks
                    value *= share * self._earlier_ranks / self._earlier_cores
                if axis.is_number(value) or value in axis.external:
                    return axis.value(axis.nearest(value))
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _problem(self, study: Study) -> Problem:
        """Return the study's problem: the parameters of every trial that have a choice."""
        _require_one_objective(study)
        trials = study.get_trials(deepcopy=False)
        state = self._seed, [(trial._trial_id, trial.state, len(trial.params)) for trial in trials]
        if self._last is None or self._last[0] != state:
            self._last = state, self._problem_of(study, trials)
        return self._last[1]

    def _problem_of(self, study: Study, trials: Sequence[FrozenTrial]) -> Problem:
        common = self._intersection.calculate(study)
        distributions = {n: values for n, values in common.items() if not values.single()}
        axes = [Axis.of(name, values, self._roles) for name, values in distributions.items()]
        launches = observations(trials, study.direction, axes) if axes else []
        if not any(launch.ending == "finished" for launch in launches):
            return Problem(None)
        space = Space(
            tuple(axis.knob for axis in axes),
            ranks_per_host=self._ranks,
            cores=self._cores or 1,
            baseline=launches[0].setting,  # none is apart: one that was tried stands for it
            guesses=self._guesses(axes),
            most_demand=self._most_demand,
        )
        there = replace(space, ranks_per_host=self._earlier_ranks, cores=self._earlier_cores)
        earlier = lesson(self._earlier, study.direction, axes, there)

        def params(key: Key) -> dict[str, Any]:
            return {axis.knob.name: axis.value(v) for axis, v in zip(axes, key, strict=True)}

        search = search_over(space, self._options, self._seed, earlier)
        return Problem(search, launches, params, lambda: distributions)

    def _guesses(self, axes: Sequence[Axis]) -> tuple[Key, ...]:
        """Return what to launch first, if the parameters say how many cores they use."""
        if self._cores is None or not any(axis.knob.role for axis in axes):
            return ()
        knobs = [
            GuessedKnob(axis.knob.name, axis.knob.role, axis.external, axis.external[0])
            for axis in axes
        ]
        settings = guesses(knobs, max(1, self._cores // self._ranks))
        keys = (tuple(axis.nearest(guess[axis.knob.name]) for axis in axes) for guess in settings)
        return tuple(dict.fromkeys(keys))


def _require_one_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError("RuntimeSampler optimizes one objective; this study has several")


def _another(problem: Problem) -> Key | None:
    """Return what to try if nothing promises anything: what was not tried, else the best again."""
    search, launches = problem.search, problem.observations
    assert search is not None
    groups, grid = grouped(launches), Grid(search.space)
    rng = np.random.default_rng([search.seed, len(launches)])
    rows = rng.integers(grid.sizes, size=(MOST_VALUES, len(grid.sizes)))
    rows = rows[~ruled_out(grid, rows, groups)]
    new = (key for row in rows if (key := grid.key(row)) not in groups)
    return next(new, None) or search.best(launches) or (launches[0].setting if launches else None)
