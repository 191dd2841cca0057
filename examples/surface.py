"""Tune a job that was recorded: every setting of a surface was run before, so that this is quick.

    python examples/surface.py benchmarks/surfaces/mlp-32core-8rank.json --trials 30

The same with another sampler (`--sampler tpe`) shows what the choice of the sampler is worth.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path

import optuna

from tuner.search import RacePruner, RuntimeSampler

SURFACES = Path(__file__).parents[1] / "benchmarks" / "surfaces"


def tuned(path: Path, trials: int, sampler: optuna.samplers.BaseSampler) -> None:
    """Tune the job of a surface, and say what was found and how far from the best that is."""
    surface = json.loads(path.read_text())
    points = {tuple(each["setting"].values()): each["runs"] for each in surface["points"]}
    knobs = surface["points"][0]["setting"].keys()
    values = {name: sorted({key[at] for key in points}) for at, name in enumerate(knobs)}
    noise, iterations = random.Random(0), surface["iterations"]

    def objective(trial: optuna.Trial) -> float:
        key = tuple(trial.suggest_categorical(name, each) for name, each in values.items())
        if not points.get(key):
            raise RuntimeError(f"{key} failed when it was recorded")
        _, _, total_s = noise.choice(points[key])
        for done in range(iterations // 10, iterations + 1, iterations // 10):
            trial.report(total_s * done / iterations, step=done)
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(total_s)

    study = optuna.create_study(sampler=sampler, pruner=RacePruner())
    study.optimize(objective, n_trials=trials, catch=RuntimeError)
    medians = {
        key: statistics.median(run[2] for run in runs) for key, runs in points.items() if runs
    }
    found_s = medians[tuple(study.best_params.values())]
    above = found_s / min(medians.values()) - 1
    print(f"fastest: {study.best_params}, {found_s:.2f} s ({above:.1%} above the best)")


def main() -> None:
    """Tune one surface."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = SURFACES / "mlp-32core-8rank.json"
    parser.add_argument("surface", type=Path, nargs="?", default=default)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--sampler", choices=["runtime", "tpe"], default="runtime")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler: optuna.samplers.BaseSampler = RuntimeSampler(seed=0)
    if args.sampler == "tpe":
        sampler = optuna.samplers.TPESampler(seed=0)
    tuned(args.surface, args.trials, sampler)


if __name__ == "__main__":
    main()
