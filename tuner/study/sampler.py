"""Optuna's TPE, held to settings that were not tried yet."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner import stats
from tuner.model import Failed, IntRange, Knob, LaunchRecord, Setting
from tuner.study.plan import Plan

#: How often TPE may propose what is known already before any other setting is taken.
REDRAWS = 16

#: On each of Optuna's trials: the number of the launch that it tells of.
LAUNCH = "launch"


def distributions(knobs: tuple[Knob, ...]) -> dict[str, BaseDistribution]:
    """The space in Optuna's words; domains are resolved."""
    return {knob.name: _distribution(knob) for knob in knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    if isinstance(knob.domain, IntRange):
        assert isinstance(knob.domain.high, int)
        return IntDistribution(knob.domain.low, knob.domain.high)
    return CategoricalDistribution(knob.domain.values)


def is_told(plan: Plan, record: LaunchRecord) -> bool:
    """True where the launch is a trial in the present space."""
    if record.purpose not in stats.TRIALS or stats.was_interrupted(record):
        return False
    return plan.contains(plan.pooling.canonical(record.setting))


def as_trial(plan: Plan, record: LaunchRecord) -> FrozenTrial:
    """The launch as Optuna's trial."""
    ending = record.outcome.ending
    failure = {"failure": f"{ending.kind}: {ending.reason}"} if isinstance(ending, Failed) else {}
    trial = create_trial(
        state=TrialState.FAIL if failure else TrialState.COMPLETE,
        value=stats.estimate_s(record.outcome.samples),
        params=plan.pooling.canonical(record.setting).as_dict(),
        distributions=distributions(plan.knobs),
        user_attrs={LAUNCH: record.number, "purpose": record.purpose.value, **failure},
    )
    # Optuna's times are local and without a zone.
    started = datetime.fromisoformat(record.started_at).astimezone().replace(tzinfo=None)
    trial.datetime_start = started
    trial.datetime_complete = started + timedelta(seconds=record.outcome.wall_s)
    return trial


class Search:
    """Proposes settings.

    It works on trials in memory, made of our launches: a proposal reads and writes no
    database, and depends on nothing but what was measured.
    """

    def __init__(self) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._known: object = None
        self._launches = 0
        self._study = optuna.create_study()

    def propose(self, plan: Plan) -> Setting:
        """A canonical setting that was not tried; the space must hold one.

        The same plan gives the same proposal, whatever was proposed before.
        """
        self._learn(plan)
        self._study.sampler = DistinctSampler(plan)
        trial = self._study.ask(distributions(plan.knobs))
        self._study.tell(trial, state=TrialState.FAIL)  # its outcome comes with the records
        return Setting.of(trial.params)

    def _learn(self, plan: Plan) -> None:
        """Add the launches that are new; begin anew where the old ones are seen otherwise now."""
        known = (plan.spec, plan.pooling.caps, plan.pooling.dropped, plan.expected_iterations())
        if known != self._known:
            self._known, self._launches = known, 0
            self._study = optuna.create_study()
        self._study.add_trials(
            as_trial(plan, record)
            for record in plan.records[self._launches :]
            if is_told(plan, record)
        )
        self._launches = len(plan.records)


class DistinctSampler(optuna.samplers.BaseSampler):
    """TPE, asked again while it proposes what was tried; then any setting that is left.

    One sampler serves one proposal. Its random stream follows from the seed and the number
    of trials, so that an interrupted study goes on with the very proposals that it would
    have had, and never repeats a stream.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rng = random.Random(f"{plan.spec.seed}/{plan.trials}")
        self._tpe = optuna.samplers.TPESampler(
            seed=self._rng.getrandbits(32),
            constant_liar=False,  # one worker: no trial runs while another is proposed
        )

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        """All parameters are drawn together."""
        return distributions(self._plan.knobs)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A canonical setting that was not tried."""
        together = self._tpe.infer_relative_search_space(study, trial)
        for _ in range(REDRAWS):
            drawn = self._tpe.sample_relative(study, trial, together)
            for name, distribution in search_space.items():
                if name not in drawn:
                    drawn[name] = self._tpe.sample_independent(study, trial, name, distribution)
            setting = self._plan.pooling.canonical(Setting.of(drawn))
            if setting not in self._plan.tried:
                return setting.as_dict()
        return self._plan.unmeasured(self._rng).as_dict()

    def sample_independent(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        param_name: str,
        param_distribution: BaseDistribution,  # noqa: ARG002
    ) -> Any:
        """Reached only where a parameter was not drawn with the others, which is a defect."""
        raise KeyError(param_name)
