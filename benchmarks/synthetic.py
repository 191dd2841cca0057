"""Surfaces of our own making, of other shapes than the six models in `surfaces/`.

    python -m benchmarks.synthetic FOLDER

They were made to look at while the search was chosen (`tune-…`) and to be reported on only
(`hold-…`): what helps on these six models alone is worth nothing. The format is that of
`surfaces/README.md`; the times are formulas with noise, so the figures that matter are those of the
recorded jobs and of the live run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Values = Sequence[int | str]


@dataclass(frozen=True)
class Job:
    """A synthetic job: a formula for its time, in units of its best, and where it fails."""

    name: str
    knobs: Mapping[str, Values]
    ranks: int
    cores: int
    iterations: int
    time: Callable[..., float]
    default: tuple[int | str, ...]
    startup_s: float = 8.0
    sd: float = 0.03
    outliers: float = 0.03
    fails: Callable[..., bool] = lambda *_: False
    best_s: float = 15.0
    grows: bool = True  # the noise, with how overfull the cores are
    starts: Callable[..., float] = lambda *_: 1.0  # the start-up, in units of startup_s


def up_to(low: int, high: int) -> list[int]:
    """The whole numbers from low to high."""
    return list(range(low, high + 1))


def over(asked: float, cores: float, power: float) -> float:
    """The price of asking for more cores than there are."""
    return math.pow(max(1.0, asked / cores), power)


def octaves(value: float, best: float) -> float:
    """How many doublings a value lies away from the best one."""
    return abs(math.log2(value / best))


def _tiny(t: int, w: int) -> float:
    return math.pow(over(8 * t, 2, 1.15), 1 if t > 1 else 0.6) * (1 + 0.03 * (w - 1))


def _choices(a: str, b: str, p: int, q: int) -> float:
    heap = {"glibc": 0.3, "jemalloc": 0, "tcmalloc": 0.05, "mimalloc": 0.12}[a]
    apart = {"none": 0.1, "core": 0.5, "numa": 0.2 if a == "glibc" else 0, "socket": 0.04}[b]
    return (1 + heap) * (1 + apart) * (1 + 0.06 * octaves(p, 4) + 0.05 * octaves(q, 2))


def _serial(t: int, w: int, o: int) -> float:
    loading = 5 / max(0.5, w * math.sqrt(o))
    return max(1 + 9 / t + 0.015 * t, loading) * over(2 * (t + w * o), 48, 0.7)


def _binder(b: str, t: int, w: int) -> float:
    step = 0.4 + 4 / math.pow(1 if b == "core" else t, 0.8)
    bound = {"none": 1.15, "core": 1.0 if w < 2 else 1.6, "numa": 1 if t <= 12 else 1.3}
    price = bound.get(b, 1.06) * over(8 * (t + w), 128, 0.5)
    return (max(step, 3 / (w + 0.4)) + 0.01 * t) * price


def _sawtooth(t: int, c: int, w: int) -> float:
    odd = 0.25 if t % 2 and t > 1 else 0
    loading = 1.3 if w == 0 else 1 + 0.02 * w
    chunks = 1 + 0.1 * math.pow(octaves(c, 16), 1.3)
    return (1 + 3 / t + odd) * chunks * loading * over(6 * (t + w), 24, 0.8)


def _seven(*values: Any) -> float:
    c, a, b, t, w, k = values
    work: float = max(1 + 5 / t, 9 / w) * over(8 * (t + w), 64, 0.8)
    bound = {"none": 1.08, "numa": 1, "core": 1.0 if t == 1 else 1.8}[b]
    exchange = {"a": 1.2, "b": 0.5, "c": 0.2}[c] * (1 + 0.15 * octaves(k, 16))
    return work * bound * (1.06 if a == "x" else 1) + exchange


def _roleless(a: int, b: int) -> float:
    x, y = math.log2(a / 7), math.log2(b / 3)
    return 1 + 0.2 * x**2 + 0.5 * (y - 0.4 * x) ** 2


T, W, CV = "omp_threads", "iterator_workers", "opencv_threads"
R = up_to

JOBS = (
    Job("tune-tiny-2core-8rank", {T: R(1, 16), W: R(1, 16)}, 8, 2, 60, _tiny, (16, 16), 3, 0.05,
        0.05, best_s=3.5),
    Job("tune-storage-16core-4rank", {T: R(1, 8), W: R(0, 24)}, 4, 16, 200,
        lambda t, w: max(1 + 3 / t, 60 / math.pow(1 + 3.5 * w, 1.02))
        * over(4 * (t + 0.1 * w), 16, 0.6), (8, 4), 6, 0.04, grows=False),
    Job("tune-valley-32core-4rank", {T: R(1, 16), W: R(1, 16)}, 4, 32, 100,
        lambda t, w: 1 + 0.55 * octaves(t * w, 12) + 0.08 * octaves(t, 5), (8, 8), 10),
    Job("tune-choices-8core-2rank",
        {"allocator": ["glibc", "jemalloc", "tcmalloc", "mimalloc"],
         "bind_to": ["none", "core", "numa", "socket"], "prefetch": [1, 2, 4, 8, 16],
         "batch_io": [1, 2, 4, 8]}, 2, 8, 150, _choices, ("glibc", "none", 1, 1), 5),
    Job("tune-flat-noisy-16core-8rank", {T: R(1, 8), W: R(1, 8)}, 8, 16, 100,
        lambda t, w: 1 + 0.002 * (t + w), (8, 8), 5, 0.06, 0.05, grows=False),
    Job("tune-slowstart-16core-4rank", {T: R(1, 4), W: R(1, 6)}, 4, 16, 100,
        lambda t, w: max(1 + 1 / t, 6 / w) * over(4 * (t + 0.3 * w), 16, 0.5), (4, 1), 3,
        starts=lambda _, w: 1 + 0.7 * w, best_s=6),
    Job("hold-plateau-64core-16rank", {T: R(1, 16), W: R(1, 16)}, 16, 64, 300,
        lambda t, w: max(1.0, 3.2 / t, 4.5 / w) * over(16 * (t + w), 90, 0.8), (16, 16), 15),
    Job("hold-oomcorner-32core-8rank", {T: R(1, 16), W: R(1, 16)}, 8, 32, 120,
        lambda t, w: max(1 + 4 / t, 14 / w) * over(8 * (t + 0.5 * w), 32, 0.9), (16, 16), 6, 0.04,
        fails=lambda t, w: w > 9 or t * w > 70),
    Job("hold-serial-48core-2rank",
        {T: [1, 2, 4, 8, 12, 16, 24, 32, 48], W: [0, 1, 2, 4, 8, 16, 24], CV: [1, 2, 4, 8]}, 2, 48,
        250, _serial, (48, 24, 8), 12),
    Job("hold-binder-128core-8rank",
        {"bind_to": ["none", "core", "numa", "socket"], T: R(1, 16), W: [0, 1, 2, 4, 6, 8]}, 8, 128,
        200, _binder, ("none", 16, 8), 9, 0.025),
    Job("hold-sawtooth-24core-6rank",
        {T: R(1, 12), "chunk": [1, 2, 4, 8, 16, 32, 64, 128], W: R(0, 5)}, 6, 24, 100, _sawtooth,
        (12, 1, 5), 7),
    Job("hold-gooddefault-16core-4rank", {T: R(1, 8), W: R(1, 8)}, 4, 16, 100,
        lambda t, w: max(1 + 2 / t, 2 / w) * over(4 * (t + w), 20, 0.5), (4, 1), 6),
    Job("hold-seven-64core-8rank",
        {"communicator": ["a", "b", "c"], "allocator": ["x", "y"],
         "bind_to": ["none", "numa", "core"], T: [1, 2, 3, 4, 6, 8, 12], W: [1, 2, 4, 6, 8, 12],
         "bucket_mb": [1, 4, 16, 64]}, 8, 64, 250, _seven, ("a", "x", "none", 12, 12, 1), 9),
    Job("hold-roleless-12core-3rank", {"alpha": R(1, 20), "beta": R(1, 20)}, 3, 12, 80, _roleless,
        (1, 20), 4, 0.035, 0.04),
    Job("hold-flat2-32core-4rank", {T: R(1, 8), W: R(1, 12), "wait": ["active", "passive"]}, 4, 32,
        100, lambda t, *_: 1 + 0.004 * abs(t - 4), (8, 12, "active"), 10, 0.025),
)  # fmt: skip


def document(job: Job, seed: int, runs: int = 30) -> dict[str, Any]:
    """The surface of a job."""
    rng = random.Random(seed)
    keys = list(itertools.product(*job.knobs.values()))
    fastest = min(job.time(*key) for key in keys)
    points = []
    for key in keys:
        setting = dict(zip(job.knobs, key, strict=True))
        if job.fails(*key):
            failed = {"fail_after_s": 0.8 * job.startup_s, "reason": "out of memory"}
            points.append(
                {"setting": setting, "failed": True, "runs": [], "truth_s": None} | failed
            )
            continue
        middle_s = job.time(*key) / fastest * job.best_s
        startup_s = job.startup_s * job.starts(*key)
        rows = [_run(job, middle_s, startup_s, _sd(job, setting), rng) for _ in range(runs)]
        truth_s = middle_s * (1 + 3.0 / job.iterations)
        points.append({"setting": setting, "failed": False, "runs": rows, "truth_s": truth_s})
    return {
        "name": job.name,
        "model": True,
        "machine": {"physical_cores": job.cores},
        "ranks": job.ranks,
        "iterations": job.iterations,
        "knobs": {name: list(values) for name, values in job.knobs.items()},
        "default": dict(zip(job.knobs, job.default, strict=True)),
        "run_columns": ["startup_s", "first_iteration_s", "elapsed_s"],
        "points": points,
    }


def _sd(job: Job, setting: Mapping[str, Any]) -> float:
    """The spread of a setting's runs: larger where the cores are overfull."""
    threads, workers, each = setting.get(T, 1), setting.get(W, 0), setting.get(CV, 1)
    full = job.ranks * (threads + workers * each) / job.cores
    if not job.grows or full <= 1:
        return job.sd
    return min(0.15, job.sd * (1 + math.log2(full)))


def _run(job: Job, middle_s: float, startup_s: float, sd: float, rng: random.Random) -> list[float]:
    elapsed_s = middle_s * math.exp(sd * rng.gauss(0, 1))
    if rng.random() < job.outliers:
        elapsed_s *= rng.uniform(2, 3)
    first_s = elapsed_s / job.iterations * (1 + 3.0 * rng.uniform(0.5, 1.5))
    started_s = startup_s * math.exp(0.05 * rng.gauss(0, 1))
    return [round(started_s, 3), round(first_s, 4), round(elapsed_s + first_s, 3)]


def write(folder: Path) -> list[Path]:
    """Write a file for each job; the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed, job in enumerate(JOBS, start=1):
        paths.append(folder / f"{job.name}.json")
        paths[-1].write_text(json.dumps(document(job, seed)))
    return paths


def main() -> None:
    """Write them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    for path in write(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
