"""`tune` against the method it came from, one after the other on this machine.

    python benchmarks/vs_article.py [--seeds 3] [--keep FILE] [--only article|tune]

The article's method is plain Optuna: TPE, every trial launched cold and run to its end, each
point measured once, 50 trials over 1..16 threads and 1..16 loader workers of 8 ranks of the MNIST
trainer. `tune` gets the same ranges and trials. Then both winners are launched in turn.

It takes about an hour and wants an idle machine. With `--keep` each part is written to a file as
soon as it is done, and what is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.hosts.machine import this_machine
from tuner.launch.launchers import find, launcher_for
from tuner.model import Layout
from tuner.stats.wilcoxon import interval

ROOT = Path(__file__).resolve().parent.parent
RANKS, TRIALS, MOST = 8, 50, 16

#: Of wall time to the end of the search: the article's over ours.
LEAST_RATIO = 10.0

#: The confirmation's wall time over the search's.
MOST_CONFIRM = 0.5

PAIRS = 6


class LaunchError(Exception):
    """A launch failed; the study goes on, as with `catch` of Optuna."""


def launch(threads: int, workers: int) -> tuple[float, float]:
    """One cold launch of the trainer: (wall time, the log's last elapsed_time), s."""
    info = find(None, environ=os.environ)
    env = dict(os.environ) | launcher_for(info.kind).environment(info)
    with tempfile.TemporaryDirectory() as out:
        command = [
            *(info.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "^ofi"),
            *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
            *("-n", str(RANKS), "/bin/sh", str(ROOT / "wrappers/task_wrapper.sh")),
            *(f"OMP_NUM_THREADS={threads}", "--", sys.executable, "-m", "mpi4py"),
            *(str(ROOT / "workloads/chainer_mnist.py"), "--benchmark", "--out", out),
            *("--loaderjob", str(workers), "--communicator", "naive"),
        ]
        begin_s = time.monotonic()
        ran = subprocess.run(
            command, check=False, env=env, stdin=subprocess.DEVNULL, capture_output=True
        )
        wall_s = time.monotonic() - begin_s
        if ran.returncode:
            raise LaunchError(
                f"exit {ran.returncode}: {ran.stderr[-2000:].decode(errors='replace')}"
            )
        log = json.loads((Path(out) / "log").read_text())
    return wall_s, float(log[-1]["elapsed_time"])


def by_article(seed: int) -> dict[str, Any]:
    """The article's study: a few lines of plain Optuna."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    launches: list[tuple[float, float]] = []

    def objective(trial: optuna.Trial) -> float:
        threads = trial.suggest_int("omp_threads", 1, MOST)
        workers = trial.suggest_int("iterator_workers", 1, MOST)
        try:
            launches.append(launch(threads, workers))
        except LaunchError as error:
            print(f"trial {trial.number} failed with {error}", file=sys.stderr)
            raise
        return launches[-1][1]

    with tempfile.TemporaryDirectory() as folder:
        sampler = optuna.samplers.TPESampler(seed=seed)
        study = optuna.create_study(storage=f"sqlite:///{folder}/article.db", sampler=sampler)
        begin_s = time.monotonic()
        study.optimize(objective, n_trials=TRIALS, catch=(LaunchError,))
        search_s = time.monotonic() - begin_s
    return {"search_s": search_s, "best": study.best_params, "said_s": study.best_value} | {
        "launches": len(launches),
        "elapsed_s": [elapsed_s for _, elapsed_s in launches],
    }


def by_tune(seed: int, *more: str) -> dict[str, Any]:
    """The same study by the command line, from nothing to its result, with ``more`` options."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--storage", f"{folder}/tune.db"]
        ranges = [f"--knob={name}=1..{MOST}" for name in ("omp_threads", "iterator_workers")]
        tune = [str(Path(sys.executable).with_name("tune"))]
        counts = ["-n", str(RANKS), "--trials", str(TRIALS), "--seed", str(seed)]
        begin_s = time.time()
        subprocess.run(
            [*tune, "run", *counts, *ranges, *place, *more, "--name", "vs", "--quiet"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        total_s = time.time() - begin_s
        shown = subprocess.run(
            [*tune, "export", "vs", "--format", "json", *place], check=True, capture_output=True
        )
    return _tuned(json.loads(shown.stdout), total_s)


def by_cold_tune(seed: int) -> dict[str, Any]:
    """With every setting in launches of its own, as in the article."""
    return by_tune(seed, "--live", "off")


def _tuned(document: dict[str, Any], total_s: float) -> dict[str, Any]:
    """The parts of the export that the table needs."""
    result, launches = document["result"], document["launches"]
    confirm_s = sum(each["wall_s"] for each in launches if each["purpose"] == "confirm")
    best = result["best"]
    return {
        "search_s": total_s - confirm_s,
        "confirm_s": confirm_s,
        "best": {name: best["setting"][name] for name in ("omp_threads", "iterator_workers")},
        "said_s": best["elapsed_s"],
        "launches": sum(each["purpose"] != "confirm" for each in launches),
        "windows": sum(each.get("window") is not None for each in launches),
        "verdict": result["verdict"],
        "finding": result["finding"],
    }


def in_turn(a: dict[str, int], b: dict[str, int]) -> dict[str, Any]:
    """Both settings launched in turn: a over b, with the interval of six pairs."""
    both = [(each["omp_threads"], each["iterator_workers"]) for each in (a, b)]
    times: list[list[float]] = [[], []]
    walls: list[float] = []
    for number in range(PAIRS):
        for side in (0, 1) if number % 2 else (1, 0):
            wall_s, elapsed_s = launch(*both[side])
            times[side].append(elapsed_s)
            walls += [wall_s] if side else []
    logs = [math.log(x / y) for x, y in zip(*times, strict=True)]
    found = interval(logs, 1 / 32)
    assert found is not None
    ratio, low, high = map(math.exp, found)
    return {"ratio": ratio, "low": low, "high": high} | {
        "article_s": statistics.median(times[0]),
        "tune_s": statistics.median(times[1]),
        "tune_wall_s": statistics.median(walls),
    }


def measure(seeds: int, keep: Path | None, only: str) -> dict[str, Any]:
    """Every part that is not kept yet, seed by seed."""
    done: dict[str, Any] = json.loads(keep.read_text()) if keep and keep.exists() else {}
    for seed in range(seeds):
        for name, part in (("article", by_article), ("tune", by_cold_tune)):
            if f"{name} {seed}" not in done and only in ("", name):
                done[f"{name} {seed}"] = part(seed)
                _save(done, keep)
        pair = [done.get(f"{name} {seed}") for name in ("article", "tune")]
        if f"in turn {seed}" not in done and pair[0] and pair[1]:
            done[f"in turn {seed}"] = in_turn(pair[0]["best"], pair[1]["best"])
            _save(done, keep)
    return done


def _save(done: dict[str, Any], keep: Path | None) -> None:
    if keep is not None:
        keep.write_text(json.dumps(done, indent=1) + "\n")


def table(done: dict[str, Any], seeds: int) -> bool:
    """Print a block a seed, the targets beside; True where they are met."""
    machine = this_machine()
    print(f"{Layout(RANKS).ranks} ranks on {machine.cores} cores ({machine.cpu_model})")
    kept = True
    for seed in range(seeds):
        parts = [done.get(f"{name} {seed}") for name in ("article", "tune", "in turn")]
        if all(parts):
            kept &= _block(seed, *parts)
    return kept


def _block(seed: int, article: Any, tuned: Any, turn: Any) -> bool:
    ratio = article["search_s"] / tuned["search_s"]
    confirm_share = tuned["confirm_s"] / tuned["search_s"]
    unit_s, wall_s = turn["tune_s"], turn["tune_wall_s"]
    print(f"\nseed {seed}: the best launch took {wall_s:.2f} s, its training {unit_s:.2f} s")
    titles = ("", "launches", "search, s", "in launches", "in trainings", "said, s", "re-measured")
    print("".join(title.rjust(14) for title in titles))
    for name, part, again_s in (
        ("article", article, turn["article_s"]),
        ("tune", tuned, turn["tune_s"]),
    ):
        figures = (part["search_s"], part["search_s"] / wall_s, part["search_s"] / unit_s)
        cells = (*(f"{figure:.1f}" for figure in figures), f"{part['said_s']:.2f}")
        row = (name, str(part["launches"]), *cells, f"{again_s:.2f}")
        print("".join(cell.rjust(14) for cell in row), part["best"])
    rows: Sequence[tuple[str, str, bool]] = (
        ("search, article over tune", f"{ratio:.1f} (>= {LEAST_RATIO:g})", ratio >= LEAST_RATIO),
        (
            "confirmation over search",
            f"{confirm_share:.2f} (<= {MOST_CONFIRM:g})",
            confirm_share <= MOST_CONFIRM,
        ),
        (
            "re-measured, article over tune",
            f"{turn['ratio']:.3f} ({turn['low']:.3f} to {turn['high']:.3f}; not below 1)",
            turn["high"] >= 1.0,
        ),
    )
    for title, text, good in rows:
        print(f"  {title:32} {text} {'met' if good else 'MISSED'}")
    return all(good for _, _, good in rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a file for what was measured so far")
    parser.add_argument("--only", choices=("article", "tune"), default="")
    options = parser.parse_args()
    done = measure(options.seeds, options.keep, options.only)
    return 0 if table(done, options.seeds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
