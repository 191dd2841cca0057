"""What an earlier study is worth to the next one: pairs of like and of unlike surfaces.

    python -m benchmarks.transfer [--seeds 20] [--first 0] [--only NAME] [--live] [--jobs 1]

Of each pair the first surface is searched, then the second one: from nothing, and from what the
first showed (`--learn-from`), with the same seeds. Costs are in best runs (`surfaces/README.md`).
A like pair is the same job with other ranks, cores, sizes or knobs; of an unlike pair the best of
one is bad in the other.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

from benchmarks import replay
from benchmarks.replay.surface import of_document
from benchmarks.search import SURFACES, cost_to, middle, quantile
from benchmarks.synthetic import Job, R, T, Values, W, document, octaves, over
from tuner.study.history import History
from tuner.study.lessons import lesson

#: The targets: of like pairs the median of the ratios, of unlike pairs too.
LIKE, UNLIKE = 0.5, 1.2

#: A study that never gets there counts as this many best runs.
NEVER = 60.0


def pipeline(ranks: int, cores: int, step: float, load: float, power: float = 0.8) -> Job:
    """Threads make a step shorter, workers load for it; both share the cores."""

    def time(t: int, w: int) -> float:
        return max(1 + step / t, load / w) * over(ranks * (t + w), cores, power)

    return Job(f"pipeline-{ranks}x{cores}", {T: R(1, 16), W: R(1, 16)}, ranks, cores, 150, time,
               (16, 16), 6)  # fmt: skip


def with_communicator(job: Job) -> Job:
    """The job with one more knob, which costs a fifth if it is not set."""
    knobs = {**job.knobs, "communicator": ["naive", "flat", "pure_nccl"]}
    price = {"naive": 1.2, "flat": 1.05, "pure_nccl": 1.0}
    return _job(job, knobs, lambda *v: job.time(*v[:-1]) * price[v[-1]], (*job.default, "naive"))


def _job(
    job: Job, knobs: dict[str, Values], time: Callable[..., float], default: tuple[int | str, ...]
) -> Job:
    return Job(job.name, knobs, job.ranks, job.cores, job.iterations, time, default, job.startup_s)


def choices(heap: Sequence[float], bound: Sequence[float], prefetch: float, batch: float) -> Job:
    """Four unordered values twice, two sizes with a best of their own."""
    heaps, bindings = (
        ["glibc", "jemalloc", "tcmalloc", "mimalloc"],
        ["none", "core", "numa", "socket"],
    )

    def time(a: str, b: str, p: int, q: int) -> float:
        chosen = (1 + heap[heaps.index(a)]) * (1 + bound[bindings.index(b)])
        sizes = 0.08 * octaves(p, prefetch) + 0.06 * octaves(q, batch)
        return chosen * (1 + sizes)

    knobs: dict[str, Values] = {"allocator": heaps, "bind_to": bindings,
                                "prefetch": [1, 2, 4, 8, 16], "batch_io": [1, 2, 4, 8]}  # fmt: skip
    return Job("choices", knobs, 2, 8, 150, time, ("glibc", "none", 1, 1), 5)


def hills(alpha: float, beta: float) -> Job:
    """Two numbers that count no cores, with the best at (alpha, beta)."""

    def time(a: int, b: int) -> float:
        away = math.pow(octaves(a, alpha), 1.5), math.pow(octaves(b, beta), 1.5)
        return 1 + 0.35 * away[0] + 0.25 * away[1]

    return Job("hills", {"alpha": R(1, 24), "beta": R(1, 24)}, 3, 12, 80, time, (1, 24), 4, 0.03)


def serial(ranks: int, cores: int, work: float) -> Job:
    """Few ranks with many threads, and loaders with threads of their own."""

    def time(t: int, w: int, o: int) -> float:
        loading = work / max(0.5, w * math.sqrt(o))
        return max(1 + work / t + 0.015 * t, loading) * over(ranks * (t + w * o), cores, 0.7)

    knobs: dict[str, Values] = {T: [1, 2, 4, 8, 12, 16, 24, 32], W: [0, 1, 2, 4, 8, 16],
                                "opencv_threads": [1, 2, 4, 8]}  # fmt: skip
    return Job(f"serial-{ranks}x{cores}", knobs, ranks, cores, 250, time, (32, 16, 8), 12)


def binder(ranks: int, cores: int, load: float) -> Job:
    """The best binding depends on the threads."""

    def time(b: str, t: int, w: int) -> float:
        step = 0.4 + 4 / math.pow(1 if b == "core" else t, 0.8)
        bound = {"none": 1.15, "core": 1.0 if w < 2 else 1.6, "numa": 1 if t <= 12 else 1.3}
        price = bound.get(b, 1.06) * over(ranks * (t + w), cores, 0.5)
        work: float = max(step, load / (w + 0.4)) + 0.01 * t
        return work * price

    knobs: dict[str, Values] = {"bind_to": ["none", "core", "numa", "socket"], T: R(1, 16),
                                W: [0, 1, 2, 4, 6, 8]}  # fmt: skip
    return Job(f"binder-{ranks}x{cores}", knobs, ranks, cores, 200, time, ("none", 16, 8), 9, 0.025)


def memory(ranks: int, cores: int, most: int) -> Job:
    """Too many workers run out of memory."""

    def time(t: int, w: int) -> float:
        return max(1 + 4 / t, 14 / w) * over(ranks * (t + 0.5 * w), cores, 0.9)

    return Job(f"memory-{ranks}x{cores}", {T: R(1, 16), W: R(1, 16)}, ranks, cores, 120, time,
               (16, 16), 6, 0.04, fails=lambda t, w: w > most or t * w > 8 * most)  # fmt: skip


def exchange(ranks: int, cores: int, net: float, bucket: float) -> Job:
    """Six knobs, one of them the size of what is exchanged."""

    def time(c: str, b: str, t: int, w: int, k: int) -> float:
        work: float = max(1 + 5 / t, 9 / w) * over(ranks * (t + w), cores, 0.8)
        bound = {"none": 1.08, "numa": 1.0, "core": 1.0 if t == 1 else 1.8}[b]
        way = {"naive": 1.2, "flat": 0.5, "pure_nccl": 0.2}[c]
        return work * bound + net * way * (1 + 0.15 * octaves(k, bucket))

    knobs: dict[str, Values] = {"communicator": ["naive", "flat", "pure_nccl"],
                                "bind_to": ["none", "numa", "core"], T: [1, 2, 3, 4, 6, 8, 12],
                                W: [1, 2, 4, 6, 8, 12], "bucket_mb": [1, 4, 16, 64]}  # fmt: skip
    return Job(f"exchange-{ranks}x{cores}", knobs, ranks, cores, 250, time,
               ("naive", "none", 12, 12, 1), 9)  # fmt: skip


def mirrored(job: Job) -> Job:
    """The job with the values of each knob in the other order: what was best is worst."""
    turned = [dict(zip(values, reversed(values), strict=True)) for values in job.knobs.values()]

    def back(key: Sequence[int | str]) -> list[int | str]:
        return [values[value] for values, value in zip(turned, key, strict=True)]

    return _job(job, dict(job.knobs), lambda *v: job.time(*back(v)), tuple(back(job.default)))


@dataclass(frozen=True)
class Pair:
    """Two studies, the second of which learns from the first."""

    name: str
    like: bool
    first: Job | str  # a name: one of `surfaces/`
    second: Job | str


PAIRS = (
    Pair("ranks", True, binder(8, 128, 3), binder(4, 128, 3)),
    Pair("cores", True, serial(2, 48, 8), serial(2, 24, 8)),
    Pair("ranks-and-cores", True, memory(8, 32, 9), memory(4, 24, 11)),
    Pair("machine", True, exchange(8, 64, 1, 16), exchange(8, 96, 1.5, 16)),
    Pair("batch", True, pipeline(6, 48, 3, 20, 0.6), pipeline(6, 48, 5, 14, 0.6)),
    Pair("choices", True, choices((0.25, 0.1, 0, 0.05), (0.2, 0, 0.1, 0.05), 8, 4),
         choices((0.3, 0.08, 0, 0.1), (0.15, 0, 0.05, 0.05), 8, 8)),
    Pair("one-more-knob", True, memory(4, 48, 12), with_communicator(memory(4, 48, 12))),
    Pair("recorded-4-to-3", True, "mnist-2core-4rank", "mnist-2core-3rank"),
    Pair("mirrored-loaders", False, pipeline(8, 64, 2, 16), mirrored(pipeline(8, 64, 2, 16))),
    Pair("mirrored-six", False, mirrored(exchange(8, 64, 1, 16)), exchange(8, 64, 1, 16)),
    Pair("other-corner", False, hills(2, 20), hills(20, 3)),
    Pair("serial-or-parallel", False, serial(1, 64, 30), mirrored(serial(1, 64, 30))),
    Pair("other-jobs", False, "crash-16core-16rank", "augment-32core-8rank"),
    Pair("other-choices", False, choices((0.4, 0.3, 0, 0.2), (0.3, 0, 0.4, 0.2), 16, 8),
         choices((0, 0.2, 0.4, 0.3), (0, 0.5, 0.1, 0.3), 1, 1)),
)  # fmt: skip


@cache
def surfaces(number: int) -> tuple[replay.Surface, replay.Surface]:
    """Those of a pair."""
    pair = PAIRS[number]
    return _surface(pair.first, 2 * number), _surface(pair.second, 2 * number + 1)


def _surface(job: Job | str, seed: int) -> replay.Surface:
    if isinstance(job, str):
        return replay.load(SURFACES / f"{job}.json")
    return of_document(document(job, seed))


@dataclass(frozen=True)
class Result:
    """The cost to 5 %, the regret and the search's cost: from nothing, and from the first study."""

    number: int  # of the pair
    to_5: tuple[float, float]
    regret: tuple[float, float]
    search: tuple[float, float]


def study(task: tuple[int, int, bool]) -> Result:
    """Replay one pair."""
    number, seed, live = task
    options: dict[str, object] = {"confirm": "none", "live": "on" if live else "off"}
    first, second = surfaces(number)
    spec = replay.spec(first, seed=seed, options=options)
    before = replay.play(first, spec, seed)
    history = History.judged(
        spec, (x.record for x in before.searched), baseline=first.setting(first.default)
    )
    found = []
    for learnt in (None, lesson(history)):
        spec = replay.spec(second, seed=seed, options={**options, "lesson": learnt})
        done = replay.play(second, spec, seed + 1000)
        found.append(
            (
                cost_to(0.05, second, done.searched),
                min(0.5, second.regret(done.best)),
                done.result.search_s / second.unit_s,
            )
        )
    without, learnt_ = found
    return Result(number, *zip(without, learnt_, strict=True))


def table(results: Sequence[Result]) -> None:
    """Print a line a pair, then the medians of like and of unlike pairs."""
    titles = (
        "to 5 %",
        "learnt",
        "ratio",
        "90th",
        "learnt",
        "regret %",
        "learnt",
        "search",
        "learnt",
    )
    print("pair".ljust(26), *(title.rjust(9) for title in titles))
    ratios: dict[str, list[float]] = {}
    for number in dict.fromkeys(result.number for result in results):
        pair, own = PAIRS[number], [result for result in results if result.number == number]
        to_5 = [[x.to_5[n] for x in own] for n in (0, 1)]
        medians = [min(NEVER, middle(costs)) for costs in to_5]
        ratio = medians[1] / medians[0]
        ratios.setdefault("like" if pair.like else "unlike", []).append(ratio)
        figures = [*medians, ratio, *(min(NEVER, quantile(c, 0.9)) for c in to_5)]
        figures += [100 * statistics.mean(x.regret[n] for x in own) for n in (0, 1)]
        figures += [statistics.median(x.search[n] for x in own) for n in (0, 1)]
        print(pair.name.ljust(26), *(f"{figure:9.2f}" for figure in figures))
    for kind, most in (("like", LIKE), ("unlike", UNLIKE)):
        if own_ratios := ratios.get(kind):
            print(
                f"{kind}: median ratio {statistics.median(own_ratios):.2f} (target {most:g}), worst"
                f" {max(own_ratios):.2f}, of {len(own_ratios)} pairs"
            )


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--only", default="", help="pairs with this in their name")
    parser.add_argument("--live", action="store_true", help="measure in running jobs")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    numbers = [n for n, pair in enumerate(PAIRS) if options.only in pair.name]
    tasks = [(number, seed, options.live) for number in numbers for seed in seeds]
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(study, tasks))
    print(f"{options.seeds} seeds a pair; costs in best runs")
    table(results)


if __name__ == "__main__":
    main()
