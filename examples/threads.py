"""Tune a plain Python function: how many threads compress a file fastest, in pieces of which size?

    python examples/threads.py --trials 20

`RuntimeSampler` proposes the settings, `RacePruner` ends a run once it cannot win.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import optuna

from tuner.search import RacePruner, RuntimeSampler

DATA = bytes(range(256)) * 8192 + os.urandom(1 << 20)  # 3 MiB
ROUNDS = 10


def objective(trial: optuna.Trial) -> float:
    """The seconds of ten rounds; the time so far is reported after each."""
    threads = trial.suggest_int("threads", 1, 16)
    piece = 1 << trial.suggest_int("log2_piece_bytes", 10, 21)
    pieces = [DATA[at : at + piece] for at in range(0, len(DATA), piece)]
    began_s = time.perf_counter()
    for done in range(1, ROUNDS + 1):
        with ThreadPoolExecutor(threads) as pool:  # zlib computes without Python's lock
            list(pool.map(zlib.compress, pieces))
        trial.report(time.perf_counter() - began_s, step=done)
        if trial.should_prune():
            raise optuna.TrialPruned
    return time.perf_counter() - began_s


def main() -> None:
    """Tune it and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    trials = parser.parse_args().trials
    cores = len(os.sched_getaffinity(0))
    sampler = RuntimeSampler(cores=cores, roles={"threads": "threads"}, seed=0)
    study = optuna.create_study(sampler=sampler, pruner=RacePruner())
    study.optimize(objective, n_trials=trials)
    pruned = sum(trial.state is optuna.trial.TrialState.PRUNED for trial in study.trials)
    print(f"fastest: {study.best_params}, {study.best_value:.3f} s; {pruned} trials ended early")


if __name__ == "__main__":
    main()
