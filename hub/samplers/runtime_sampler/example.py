"""Find the setting with the shortest time; the time here is a formula with noise."""

import random

import optuna

from tuner.search import (
    RuntimeSampler,
)  # or optunahub.load_module("samplers/runtime_sampler").RuntimeSampler


def objective(trial: optuna.Trial) -> float:
    """Seconds of a job on eight cores: too few threads idle, too many wait for each other."""
    threads = trial.suggest_int("threads", 1, 32)
    workers = trial.suggest_int("workers", 0, 8)
    busy = threads + workers
    seconds = 40.0 / min(busy, 8) + 0.5 * max(0, busy - 8) + abs(workers - 2)
    return seconds * random.gauss(1.0, 0.01)


roles = {"threads": "threads", "workers": "workers"}
study = optuna.create_study(sampler=RuntimeSampler(cores=8, roles=roles, seed=0))
study.optimize(objective, n_trials=30)
print(f"fastest: {study.best_params}, {study.best_value:.2f} s")
