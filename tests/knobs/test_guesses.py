"""The sampler for any study of Optuna's takes its first guesses from the list of `tune`."""

from __future__ import annotations

import optuna
from optuna.distributions import BaseDistribution, IntDistribution

from tuner.search import RuntimeSampler


def test_the_sampler_suggests_the_guesses_first() -> None:
    sampler = RuntimeSampler(cores=8, ranks=2, roles={"t": "threads", "w": "workers"})
    study = optuna.create_study(sampler=sampler)
    ranges: dict[str, BaseDistribution] = {"t": IntDistribution(1, 8), "w": IntDistribution(1, 8)}
    first = optuna.trial.create_trial(params={"t": 8, "w": 8}, distributions=ranges, value=9.0)
    study.add_trial(first)
    settings = []
    for _ in range(2):
        trial = study.ask(ranges)
        settings.append((trial.params["t"], trial.params["w"]))
        study.tell(trial, 5.0)
    assert settings == [(4, 4), (1, 1)]
