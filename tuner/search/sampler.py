"""The search as a sampler and its end as a terminator of Optuna, in ``tune`` and elsewhere.

sampler = RuntimeSampler(cores=8, roles={"threads": "threads"})
study = optuna.create_study(sampler=sampler)
while not RuntimeTerminator(sampler).should_terminate(study):
    study.optimize(objective, n_trials=1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.terminator import BaseTerminator
from optuna.trial import FrozenTrial

from tuner.knobs import Role
from tuner.knobs.guesses import GuessedKnob, guesses
from tuner.search.engine import Done, Problem, Suggestion, search_over
from tuner.search.grid import Grid, Key, Space
from tuner.search.launch_groups import grouped
from tuner.search.plain import MOST_VALUES, Axis, observations
from tuner.search.regions import ruled_out
from tuner.search.scoring import Options

#: The sampler sets no limit to the number of trials: the study does.
_ENDLESS = 10**9


class RuntimeSampler(BaseSampler):
    """A Gaussian process over the settings; made for times that scatter by a few per cent.

    It repeats what may be the best, so that no lucky run wins, and counts a pruned trial as
    what it was heading for (:class:`~tuner.search.pruner.RacePruner` says that). A setting that
    failed is not proposed again, nor is one that runs. Values above 0 are compared by their
    ratios, others by their differences. A study with several objectives is a ``ValueError``, and so
    is an argument out of its range.

    Args:
        cores: CPU cores of a host. With ``roles`` nothing is proposed that asks for more than
            ``oversubscribe`` times as many.
        ranks: Processes on a host that each use the threads and workers.
        roles: Which parameters count cores: ``threads`` (of a process), ``workers`` (its loader
            processes), ``worker_threads`` (of each of those).
        oversubscribe: See ``cores``; ``None``: no limit.
        precision: Values that differ by less than this share count as equal.
        min_gain: The search is over once going on is expected to gain less than this share
            (:class:`RuntimeTerminator`).
        seed: The same seed and trials give the same proposals.
        read: Returns the problem of a study, in place of its trials' parameters and values; all
            other arguments but ``seed`` are then without effect. ``tuner.study.reader.Reader()``
            reads what ``tune`` has stored: what a launch started with, where it was heading, what a
            setting costs to reach in a running job.
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
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._read = read or self._problem
        self._intersection = IntersectionSearchSpace(include_pruned=True)
        self._independent = RandomSampler(self._seed)
        self._last_problem: tuple[object, Problem] | None = None
        self._last_params: tuple[int, Mapping[str, Any]] = (-1, {})  # by the id of the trial

    def reseed_rng(self) -> None:
        # Processes that share a study must not propose the same.
        self._seed = int(np.random.SeedSequence().generate_state(1)[0])
        self._independent.reseed_rng()

    def next(self, study: Study) -> Suggestion | Done:
        """Return the next launch and its purpose, or why the search is over."""
        return self._read(study).next

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        if "fixed_params" in trial.system_attrs:  # it was enqueued
            return {}
        problem = self._read(study)
        distributions, params = problem.distributions(), self._setting(problem)
        self._last_params = trial._trial_id, params
        return {name: distributions[name] for name in params}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        trial_id, params = self._last_params
        if trial_id != trial._trial_id:
            params = self._setting(self._read(study))
        return {name: params[name] for name in search_space if name in params}

    def _setting(self, problem: Problem) -> Mapping[str, Any]:
        """Return the parameters of the next launch; if the search is over, of some setting."""
        if isinstance(problem.next, Suggestion):
            return problem.next.params
        if problem.search is None:
            return {}
        key = _beyond_the_end(problem)
        return {} if key is None else problem.params(key)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        _require_one_objective(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _problem(self, study: Study) -> Problem:
        """Return the study's problem: the parameters of every trial that have a choice."""
        _require_one_objective(study)
        trials = study.get_trials(deepcopy=False)
        state = self._seed, [(trial._trial_id, trial.state, len(trial.params)) for trial in trials]
        if self._last_problem is None or self._last_problem[0] != state:
            self._last_problem = state, self._problem_of(study, trials)
        return self._last_problem[1]

    def _problem_of(self, study: Study, trials: Sequence[FrozenTrial]) -> Problem:
        common = self._intersection.calculate(study)
        distributions = {n: values for n, values in common.items() if not values.single()}
        axes = [Axis.of(name, values, self._roles) for name, values in distributions.items()]
        launches = observations(trials, study.direction, axes) if axes else []
        if not any(launch.ending == "finished" for launch in launches):
            return Problem(search=None)
        space = Space(
            tuple(axis.knob for axis in axes),
            ranks_per_host=self._ranks,
            cores=self._cores or 1,
            baseline=launches[0].setting,  # such a study has no baseline: the first stands for it
            guesses=self._guesses(axes),
            most_demand=self._most_demand,
        )

        def params(key: Key) -> dict[str, Any]:
            return {axis.knob.name: axis.value(v) for axis, v in zip(axes, key, strict=True)}

        search = search_over(space, self._options, self._seed)
        return Problem(search, launches, params, distributions=lambda: distributions)

    def _guesses(self, axes: Sequence[Axis]) -> tuple[Key, ...]:
        """Return the settings to launch first, if parameters have roles that count cores."""
        if self._cores is None or not any(axis.knob.role for axis in axes):
            return ()
        knobs = [
            GuessedKnob(axis.knob.name, axis.knob.role, axis.external, usual=axis.external[0])
            for axis in axes
        ]
        settings = guesses(knobs, self._cores, self._ranks)
        keys = (tuple(axis.nearest(guess[axis.knob.name]) for axis in axes) for guess in settings)
        return tuple(dict.fromkeys(keys))


class RuntimeTerminator(BaseTerminator):
    """Ends a study once going on is expected to gain too little, or nothing is left to try.

    The sampler weighs what another trial may gain against ``min_gain``; the study may have another
    sampler.
    """

    def __init__(self, sampler: RuntimeSampler) -> None:
        self._sampler = sampler

    def should_terminate(self, study: Study) -> bool:
        return isinstance(self._sampler.next(study), Done)


def _require_one_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError("RuntimeSampler optimizes one objective; this study has several")


def _beyond_the_end(problem: Problem) -> Key | None:
    """Return a setting to try though the search is over: an untried one, or else the best again."""
    search, launches = problem.search, problem.observations
    assert search is not None
    groups, grid = grouped(launches), Grid(search.space)
    rng = np.random.default_rng([search.seed, len(launches)])
    rows = rng.integers(grid.sizes, size=(MOST_VALUES, len(grid.sizes)))
    rows = rows[~ruled_out(grid, rows, groups)]
    new = (key for row in rows if (key := grid.key(row)) not in groups)
    return next(new, None) or search.best(launches) or (launches[0].setting if launches else None)
