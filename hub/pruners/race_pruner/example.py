"""End a run once it cannot win; the run here is a loop that reports the time so far."""

import optuna

from tuner.search import RacePruner  # or optunahub.load_module("pruners/race_pruner").RacePruner

ITERATIONS = 100


def objective(trial: optuna.Trial) -> float:
    """Seconds of a job of 100 iterations."""
    threads = trial.suggest_int("threads", 1, 32)
    seconds = 5.0 + abs(threads - 6)
    for iteration in range(10, ITERATIONS + 1, 10):
        trial.report(seconds * iteration / ITERATIONS, step=iteration)
        if trial.should_prune():
            raise optuna.TrialPruned
    return seconds


study = optuna.create_study(pruner=RacePruner())
study.optimize(objective, n_trials=30)
pruned = sum(trial.state is optuna.trial.TrialState.PRUNED for trial in study.trials)
print(f"fastest: {study.best_params}, {study.best_value:.2f} s; {pruned} trials ended early")
