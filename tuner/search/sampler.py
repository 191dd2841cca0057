"""The search as a sampler of Optuna: it decides what is launched next, in ``tune`` and elsewhere.

study = optuna.create_study(sampler=RuntimeSampler(cores=8, roles={"threads": "threads"}))
study.optimize(objective, n_trials=50)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.knobs import Role
from tuner.search.engine import Done
from tuner.search.plain import PlainStudy, another
from tuner.search.problem import Problem, Suggestion


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
        self._plain = PlainStudy(
            cores=cores,
            ranks=ranks,
            roles=roles,
            oversubscribe=oversubscribe,
            precision=precision,
            min_gain=min_gain,
            seed=seed,
            learn_from=learn_from,
            earlier_cores=earlier_cores,
            earlier_ranks=earlier_ranks,
        )
        self._read = read or self._plain.read
        self._independent = RandomSampler(self._plain.seed)
        self._chosen: tuple[int, Mapping[str, Any]] = (-1, {})  # for the trial asked for last

    def reseed_rng(self) -> None:
        """Take another seed: processes that share a study must not propose the same."""
        self._plain.seed = int(np.random.SeedSequence().generate_state(1)[0])
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
        key = another(problem.search, problem.observations)
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
        is_earlier, value = self._plain.earlier_value(study, param_name, param_distribution)
        if is_earlier:
            return value
        return self._independent.sample_independent(study, trial, param_name, param_distribution)
