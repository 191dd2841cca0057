"""`tune` against the method it came from, one after the other on this machine.

    python -m benchmarks.vs_article [--seeds 3] [--keep FILE]

The article's method is plain Optuna: TPE, every trial launched cold and run to its end, each
point measured once, 50 trials over 1..16 threads and 1..16 loader workers of 8 ranks of the MNIST
trainer. `tune` gets the same ranges and trials, and measures live as it does by default. Both
figures are given beside each other: the time to the end of the search, and to the confirmed answer.
Then both winners are launched in turn.

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
from pathlib import Path
from typing import Any

from tuner.hosts.machine import this_machine
from tuner.launch.launchers import launcher_for
from tuner.launch.launchers.discovery import find
from tuner.stats.ranks import interval

ROOT = Path(__file__).resolve().parent.parent
RANKS, TRIALS, MOST = 8, 50, 16

#: The article's wall time over ours: to the end of the search, and to the confirmed answer.
LEAST_SEARCH, LEAST_CONFIRMED = 25.0, 12.0

#: Wall time to the confirmed answer over that to the end of the search.
MOST_CONFIRMED = 1.5

PAIRS = 6


def launch(threads: int | None, workers: int | None) -> tuple[float, float]:
    """One cold launch of the trainer: (wall time, the log's last elapsed_time), s.

    ``None`` leaves that to the trainer.

    Raises:
        subprocess.CalledProcessError: The launch failed.
    """
    variables = [] if threads is None else [f"OMP_NUM_THREADS={threads}"]
    options = [] if workers is None else ["--loaderjob", str(workers)]
    info = find(None, environ=os.environ)
    env = dict(os.environ) | launcher_for(info.kind).environment(info)
    with tempfile.TemporaryDirectory() as out:
        command = [
            *(info.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "btl", "^ofi"),
            *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
            *("-n", str(RANKS), "/bin/sh", str(ROOT / "wrappers/task_wrapper.sh")),
            *(*variables, "--", sys.executable, "-m", "mpi4py"),
            *(str(ROOT / "workloads/chainer_mnist.py"), "--benchmark", "--out", out),
            *(*options, "--communicator", "naive"),
        ]
        begin_s = time.monotonic()
        subprocess.run(command, check=True, env=env, stdin=subprocess.DEVNULL, capture_output=True)
        wall_s = time.monotonic() - begin_s
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
        except subprocess.CalledProcessError as error:
            said = error.stderr[-2000:].decode(errors="replace")
            print(f"trial {trial.number}, exit {error.returncode}: {said}", file=sys.stderr)
            raise  # the study goes on
        return launches[-1][1]

    with tempfile.TemporaryDirectory() as folder:
        sampler = optuna.samplers.TPESampler(seed=seed)
        study = optuna.create_study(storage=f"sqlite:///{folder}/article.db", sampler=sampler)
        begin_s = time.monotonic()
        study.optimize(objective, n_trials=TRIALS, catch=(subprocess.CalledProcessError,))
        search_s = time.monotonic() - begin_s
    return {"search_s": search_s, "best": study.best_params, "said_s": study.best_value} | {
        "launches": len(launches),
        "elapsed_s": [elapsed_s for _, elapsed_s in launches],
    }


def by_tune(seed: int) -> dict[str, Any]:
    """The same study by the command line, from nothing to its result."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--storage", f"{folder}/tune.db"]
        ranges = [f"--knob={name}=1..{MOST}" for name in ("omp_threads", "iterator_workers")]
        tune = [str(Path(sys.executable).with_name("tune"))]
        counts = ["-n", str(RANKS), "--trials", str(TRIALS), "--seed", str(seed)]
        begin_s = time.time()
        subprocess.run(
            [*tune, "run", *counts, *ranges, *place, "--name", "vs", "--quiet"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        total_s = time.time() - begin_s
        shown = subprocess.run(
            [*tune, "export", "vs", "--format", "json", *place], check=True, capture_output=True
        )
    document = json.loads(shown.stdout)
    result, launches = document["result"], document["launches"]
    confirm_s = sum(each["wall_s"] for each in launches if each["purpose"] == "confirm")
    best = result["best"]
    return {
        "search_s": total_s - confirm_s,
        "confirm_s": confirm_s,
        "best": best["setting"],
        "said_s": best["elapsed_s"],
        "launches": sum(each["purpose"] != "confirm" for each in launches),
        "windows": sum(each.get("window") is not None for each in launches),
        "verdict": result["verdict"],
        "finding": result["finding"],
    }


def in_turn(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Both settings launched in turn: a over b, with the interval of six pairs."""
    both = [(each.get("omp_threads"), each.get("iterator_workers")) for each in (a, b)]
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


def measure(seeds: int, keep: Path | None) -> dict[str, Any]:
    """Every part that is not kept yet, seed by seed."""
    done: dict[str, Any] = json.loads(keep.read_text()) if keep and keep.exists() else {}

    def both_in_turn(seed: int) -> dict[str, Any]:
        return in_turn(*(done[f"{name} {seed}"]["best"] for name in ("article", "tune")))

    parts = {"article": by_article, "tune": by_tune, "in turn": both_in_turn}
    for seed in range(seeds):
        for name, part in parts.items():
            if f"{name} {seed}" not in done:
                done[f"{name} {seed}"] = part(seed)
                if keep is not None:
                    keep.write_text(json.dumps(done, indent=1) + "\n")
    return done


def table(done: dict[str, Any], seeds: int) -> bool:
    """Print a line a seed, then the medians with their targets; True if these are met."""
    machine = this_machine()
    print(f"{RANKS} ranks on {machine.cores} cores ({machine.cpu_model})")
    titles = ("seed", "article, s", "search, s", "confirmed, s", "ratio", "ratio", "verdict")
    print("".join(title.rjust(13) for title in titles))
    searches, answers, shares = [], [], []
    kept = True
    for seed in range(seeds):
        article, tuned, turn = (done[f"{name} {seed}"] for name in ("article", "tune", "in turn"))
        search_s, total_s = tuned["search_s"], tuned["search_s"] + tuned["confirm_s"]
        searches.append(article["search_s"] / search_s)
        answers.append(article["search_s"] / total_s)
        shares.append(total_s / search_s)
        cells = (f"{article['search_s']:.0f}", f"{search_s:.1f}", f"{total_s:.1f}")
        ratios = (f"{searches[-1]:.1f}", f"{answers[-1]:.1f}")
        print(
            "".join(cell.rjust(13) for cell in (str(seed), *cells, *ratios)), " ", tuned["verdict"]
        )
        launches = f"{tuned['launches']} launches, {tuned['windows']} of them windows"
        print(f"{'':13} best {tuned['best']}, {tuned['said_s']:.2f} s, after {launches}")
        kept &= turn["high"] >= 1.0
        print(
            f"{'':13} article's {article['best']} over it, in turn: {turn['ratio']:.3f}"
            f" ({turn['low']:.3f} to {turn['high']:.3f}; not below 1);"
            f" {total_s / turn['tune_wall_s']:.1f} best launches in all"
        )
    rows = (
        ("article over tune, search", statistics.median(searches), LEAST_SEARCH, 1),
        ("article over tune, confirmed", statistics.median(answers), LEAST_CONFIRMED, 1),
        ("confirmed over search", statistics.median(shares), MOST_CONFIRMED, -1),
    )
    for title, figure, target, sign in rows:
        good = sign * figure >= sign * target
        kept &= good
        bound = f"{'>=' if sign > 0 else '<='} {target:g}"
        print(f"  {title:30} {figure:.2f} ({bound}) {'met' if good else 'MISSED'}")
    return kept


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a file for what was measured so far")
    options = parser.parse_args()
    done = measure(options.seeds, options.keep)
    return 0 if table(done, options.seeds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
