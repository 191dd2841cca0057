"""Optuna's TPE, held to settings that were not tried yet."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)

from tuner.model import IntRange, Knob, Setting
from tuner.study.plan import Plan

#: How often TPE may propose what is known already before any other setting is taken.
REDRAWS = 16


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {knob.name: _distribution(knob) for knob in knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    if isinstance(knob.domain, IntRange):
        assert isinstance(knob.domain.high, int)
        return IntDistribution(knob.domain.low, knob.domain.high)
    return CategoricalDistribution(knob.domain.values)


class GivenSampler(optuna.samplers.BaseSampler):
    """Proposes one setting that is decided already (a guess)."""

    def __init__(self, setting: Setting, space: Mapping[str, BaseDistribution]) -> None:
        self._setting = setting
        self._space = dict(space)

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: optuna.trial.FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """All parameters are drawn together."""
        return self._space

    def sample_relative(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: optuna.trial.FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        """The setting."""
        return self._setting.as_dict()

    def sample_independent(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: optuna.trial.FrozenTrial,  # noqa: ARG002
        param_name: str,
        param_distribution: BaseDistribution,  # noqa: ARG002
    ) -> Any:
        """Reached only where a parameter was not drawn with the others, which is a defect."""
        raise KeyError(param_name)


class DistinctSampler(GivenSampler):
    """TPE, asked again while it proposes what was tried; then any setting that is left.

    One sampler serves one proposal. Its random stream follows from the seed and the number
    of trials, so that an interrupted study goes on with the very proposals that it would
    have had, and never repeats a stream.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(Setting(), distributions(plan.knobs))
        self._plan = plan
        self._rng = random.Random(f"{plan.spec.seed}/{plan.trials}")
        self._tpe = optuna.samplers.TPESampler(
            seed=self._rng.getrandbits(32),
            constant_liar=False,  # one worker: no trial runs while another is proposed
        )

    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """A canonical setting that was not tried."""
        together = {
            name: known
            for name, known in self._tpe.infer_relative_search_space(study, trial).items()
            if search_space.get(name) == known
        }
        for _ in range(REDRAWS):
            drawn = self._tpe.sample_relative(study, trial, together)
            for name, distribution in search_space.items():
                if name not in drawn:
                    drawn[name] = self._tpe.sample_independent(study, trial, name, distribution)
            setting = self._plan.pooling.canonical(Setting.of(drawn))
            if setting not in self._plan.tried:
                return setting.as_dict()
        return self._plan.unmeasured(self._rng).as_dict()
