"""Surfaces of our own making, of other shapes than the six models in `surfaces/`.

    python -m benchmarks.synthetic FOLDER
    python -m benchmarks.search FOLDER --only hold- --seeds 3

Kinds of jobs whose sizes, shapes and noise are drawn. Instances of a kind are to look at while the
search is chosen (`tune-…`) or to be reported on only (`hold-…`): what helps on the six models alone
is worth nothing. The format is that of `surfaces/README.md`; the times are
formulas with noise, so the figures that matter are those of the recorded jobs and of the live run.
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
    reason: str = "out of memory"  # of its failures
    best_s: float = 15.0
    grows: bool = True  # the noise, with how overfull the cores are
    cold: Sequence[str] = ()  # knobs that need a launch of their own


def up_to(low: int, high: int) -> list[int]:
    """The whole numbers from low to high."""
    return list(range(low, high + 1))


def over(asked: float, cores: float, power: float) -> float:
    """The price of asking for more cores than there are."""
    return math.pow(max(1.0, asked / cores), power)


def octaves(value: float, best: float) -> float:
    """How many doublings a value lies away from the best one."""
    return abs(math.log2(value / best))


def slower(one: float, other: float) -> float:
    """What two parts of a step that overlap take: little more than the slower one."""
    return math.pow(one**5 + other**5, 0.2)


N, T, W, CV = "ranks", "omp_threads", "iterator_workers", "opencv_threads"
R = up_to

#: Of each kind: as many to choose on as to report.
INSTANCES = 12

#: The noise of the instances is drawn with the seeds from here on, as it always was.
FIRST_SEED = 8


def _corner(name: str, rng: random.Random) -> Job:
    """A region fails, from a third of the space to four fifths: what asks for much of something."""
    cores, threads, workers = rng.choice([8, 16, 32]), rng.randint(8, 16), rng.randint(8, 16)
    ranks = cores // rng.choice([1, 2, 4])
    serial, loading, share = rng.uniform(0.5, 6), rng.uniform(1, 14), rng.uniform(0.1, 1)
    power = rng.uniform(0.5, 1.2)
    asks: Callable[[int, int], float] = rng.choice([
        lambda _, w: w,
        lambda t, _: t,
        lambda t, w: t * w,
        lambda t, w: t + w,
        lambda t, w: max(t / threads, w / workers),
    ])  # fmt: skip
    asked = sorted(asks(t, w) for t in R(1, threads) for w in R(1, workers))
    most = asked[int(len(asked) * rng.uniform(0.2, 0.67))]
    reasons = ["out of memory", "cannot create thread", "segmentation fault"]
    return Job(
        name, {T: R(1, threads), W: R(1, workers)}, ranks, cores, rng.randint(60, 200),
        lambda t, w: max(1 + serial / t, loading / w) * over(ranks * (t + share * w), cores, power),
        rng.choice([(threads, workers), (threads, 1), (1, 1)]), rng.uniform(3, 12),
        rng.uniform(0.02, 0.04), fails=lambda t, w: asks(t, w) > most,
        reason=rng.choice(reasons), best_s=rng.uniform(6, 20), grows=rng.random() < 0.5,
    )  # fmt: skip


def _few(name: str, rng: random.Random) -> Job:
    """One to four cores, which even one thread a rank overfills; runs differ by 8 to 15 %."""
    cores = rng.choice([1, 2, 4])
    ranks, threads, workers = cores * rng.choice([2, 4]), rng.randint(4, 16), rng.randint(6, 16)
    # alone, a thread does not spin while it waits for others
    power, alone = rng.uniform(0.4, 1.2), rng.uniform(0.4, 1)
    best, loses, gains = rng.choice([1, 1, 2, 3, 4]), rng.uniform(0.02, 0.2), rng.uniform(0.1, 0.5)

    def time(t: int, w: int) -> float:
        loading = 1 + octaves(w, best) * (loses if w > best else gains)
        return math.pow(over(ranks * t, cores, power), 1 if t > 1 else alone) * loading

    return Job(
        name, {T: R(1, threads), W: R(1, workers)}, ranks, cores, rng.randint(20, 100), time,
        rng.choice([(threads, workers), (threads, 1)]), rng.uniform(2, 6), rng.uniform(0.03, 0.05),
        0.05, best_s=rng.uniform(3, 10),
    )  # fmt: skip


def _flat(name: str, rng: random.Random) -> Job:
    """A third of the space and more lies within 5 % of the best, and runs differ by 3 %."""
    cores, threads, workers = rng.choice([16, 32, 64]), rng.randint(6, 16), rng.randint(6, 16)
    ranks = cores // rng.choice([4, 8, 16])
    best_t, best_w = rng.randint(1, threads), rng.randint(1, workers)
    slopes = rng.uniform(0, 0.014), rng.uniform(0, 0.014)
    # what is short of these is slow
    least_t, least_w = (rng.randint(1, min(best, 4)) for best in (best_t, best_w))

    def time(t: int, w: int) -> float:
        top = 1 + slopes[0] * octaves(t, best_t) + slopes[1] * octaves(w, best_w)
        return top * max(1.0, least_t / t, least_w / w)

    return Job(
        name, {T: R(1, threads), W: R(1, workers)}, ranks, cores, rng.randint(60, 200), time,
        rng.choice([(threads, workers), (1, 1), (best_t, 1)]), rng.uniform(3, 12), 0.03,
        best_s=rng.uniform(6, 20), grows=False,
    )  # fmt: skip


def _some(rng: random.Random, values: Sequence[int], most: int) -> list[int]:
    """The first of the values and a few of the others, in their order."""
    number = rng.randint(most - 2, most)
    return [values[0], *sorted(rng.sample(values[1:], number - 1))]


def _loader(rng: random.Random) -> Callable[[int, int, float], float]:
    """How long loading takes: by workers, each with threads of its own that help less and less."""
    loading, power, switch = rng.uniform(4, 14), rng.uniform(0.1, 0.8), rng.uniform(0, 0.03)
    alone = rng.uniform(0.3, 0.9)  # without workers the main process loads

    def loads(w: int, o: int, cores: float) -> float:
        hands = max(alone, w) * math.pow(o, power)
        return loading / min(hands, 1.2 * cores) * (1 + switch * w * (o - 1))

    return loads


def _augment(name: str, rng: random.Random) -> Job:
    """A loader augments images: its workers, times the threads of each, share cores with others."""
    cores, ranks = rng.choice([16, 24, 32, 48, 64]), rng.choice([2, 4, 8])
    threads = _some(rng, [1, 2, 3, 4, 6, 8, 12, 16], 8)
    workers = _some(rng, [0, 1, 2, 3, 4, 6, 8, 10, 12, 16], 9)
    inner = [1, 2, 4, 8][: rng.randint(3, 4)]
    loads, serial, spins = _loader(rng), rng.uniform(0.5, 4), rng.uniform(0, 0.03)
    power, busy = rng.uniform(0.4, 0.9), rng.uniform(0.4, 1)

    def time(t: int, w: int, o: int) -> float:
        step = 1 + serial / t + spins * t
        own = cores / ranks
        return slower(step, loads(w, o, own)) * over(busy * t + w * o, own, power)

    return Job(
        name, {T: threads, W: workers, CV: inner}, ranks, cores, rng.randint(100, 300), time,
        (rng.choice([threads[-1], 1]), rng.choice(workers[2:]), rng.choice([1, inner[-1]])),
        rng.uniform(6, 16), rng.uniform(0.02, 0.05), best_s=rng.uniform(10, 20),
    )  # fmt: skip


def _six(name: str, rng: random.Random) -> Job:
    """Three choices and three counts: most of the choices cost little, one much."""
    cores, ranks = rng.choice([24, 32, 48, 64]), rng.choice([4, 8])
    ways, bound, waits = ["naive", "flat", "tree"], ["none", "numa"], ["active", "passive"]
    threads = _some(rng, [1, 2, 3, 4, 6, 8, 12, 16], 7)
    workers = _some(rng, [1, 2, 3, 4, 6, 8, 12], 6)
    inner = [1, 2, 4]
    loads, serial, power = _loader(rng), rng.uniform(1, 5), rng.uniform(0.4, 0.9)
    exchange = dict(zip(ways, rng.sample([0.2, 0.25, rng.uniform(0.3, 1)], 3), strict=True))
    apart = {"none": rng.uniform(0, 0.12), "numa": 0.0}
    idle = dict(zip(waits, rng.sample([0.0, rng.uniform(0, 0.08)], 2), strict=True))
    widest = rng.randint(2, 12)  # more threads than a socket's cores are slow if they are bound

    def time(*values: Any) -> float:
        c, b, p, t, w, o = values
        own = cores / ranks
        step = (1 + serial / t) * (1 + apart[b]) * (1.3 if b == "numa" and t > widest else 1)
        # who waits actively takes cores from the loaders
        full = 0.8 * t * (1.3 if p == "active" else 1) + w * o
        return (
            (slower(step, loads(w, o, own)) + exchange[c]) * (1 + idle[p]) * over(full, own, power)
        )

    return Job(
        name, {"communicator": ways, "bind_to": bound, "omp_wait_policy": waits, T: threads,
               W: workers, CV: inner},
        ranks, cores, rng.randint(100, 300), time,
        ("naive", "none", rng.choice(waits), rng.choice([threads[-1], 1]), rng.choice(workers[2:]),
         rng.choice([1, inner[-1]])),
        rng.uniform(5, 12), rng.uniform(0.02, 0.05), best_s=rng.uniform(10, 20),
    )  # fmt: skip


def _two(name: str, rng: random.Random) -> Job:
    """A machine with two cores, a few settings, and short runs that differ by 6 to 15 %."""
    ranks, threads, inner = rng.choice([1, 2, 2, 3, 4]), rng.choice([[1], [1, 2]]), [1, 2, 4]
    workers, ahead = rng.choice([[1, 2, 4], [1, 2, 3, 4], [1, 2, 4, 8]]), [1, 4]
    spins, power = rng.choice([0.1, 0.5, 2.0]), rng.uniform(0.2, 0.8)
    loading, waits, joint = rng.uniform(0.3, 2.5), rng.uniform(0, 0.08), rng.uniform(0.2, 0.7)

    def time(t: int, w: int, x: int, a: int) -> float:
        step = 1 / math.pow(t, 0.3) * (1 + spins * max(0.0, ranks * t / 2 - 1))
        slow = slower(step, loading / w) * over(ranks * (t + joint * w * math.sqrt(x)), 2, power)
        return slow * (1 + (waits if a == 1 else 0.02)) * (1 + 0.04 * (x - 1))

    knobs: dict[str, Values] = {T: threads, W: workers, CV: inner, "prefetch": ahead}
    if rng.random() < 0.5:
        del knobs[CV]
    default = tuple(rng.choice([values[0], values[-1]]) for values in knobs.values())
    whole = time if CV in knobs else lambda t, w, a: time(t, w, 1, a)
    return Job(
        name, knobs, ranks, 2, rng.randint(10, 60), whole, default, rng.uniform(0.8, 3),
        rng.uniform(0.06, 0.15), 0.05, best_s=rng.uniform(0.7, 5), grows=False,
    )  # fmt: skip


def _hybrid(name: str, rng: random.Random) -> Job:
    """Ranks x threads share the cores; some have a third knob, of where they run or of loading."""
    draw, kinds = rng.uniform, ["numa", "messages", "amdahl"]
    kind = name.split("-")[1]
    refuses: Callable[..., bool] = rng.choice([  # a grid that the ranks must divide
        lambda n, *_: n > 1 and n % 2 == 1,
        lambda n, *_: n & (n - 1) > 0,
        lambda n, *_: round(n ** (1 / 3)) ** 3 != n,
    ])  # fmt: skip
    serial, memory, per_rank = {
        "numa": (0.0, draw(1, 3), draw(0.02, 0.5)),  # bound by memory
        "messages": (draw(0.005, 0.05), 0.0, draw(0.5, 3)),  # of the ranks: a middle split wins
        "amdahl": (draw(0.05, 0.5), 0.0, draw(0, 0.1)),  # in a rank: a thread each wins
    }[kind if kind in kinds else rng.choice(kinds)]
    far, half = draw(0.3, 1.5), draw(0.1, 0.6)  # memory: of another node; cores that saturate it
    latency, forks, apart, loading = draw(0, 0.03), draw(0, 0.03), draw(0, 0.12), draw(0.1, 1)
    power, nodes, cores = draw(0.4, 0.9), rng.choice([2, 4]), rng.choice([8, 16, 24, 32, 64, 128])
    most, size = max(16, cores), 0
    scale = [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) if n <= most]
    bound, loads = {"bind_to": ["none", "core", "numa"]}, {W: [0, 1, 2, 3, 4, 6, 8]}
    knobs: dict[str, Values] = {}
    while not 200 <= size <= 2000:
        of_ranks = [R(1, most)] if kind not in kinds else [R(1, most), scale]
        knobs = {N: rng.choice(of_ranks), T: rng.choice([R(1, most), scale])}
        knobs |= rng.choice([{}, bound, {"cores_per_rank": ["unset", "share"]}, loads])
        size = math.prod(map(len, knobs.values()))

    def time(n: int, t: int, x: Any = "") -> float:
        w, own, busy = x if W in knobs else 0, max(1.0, cores / n), min(1.0, n * t / cores)
        nodes_of_rank = min(nodes, max(1.0, t * nodes / cores))
        work = (serial + (1 - serial) / min(t, own)) * cores / min(n, cores)
        waits = memory * (1 + half / busy) / (1 + half) * (1 + far * (1 - 1 / nodes_of_rank))
        step = slower(work, waits) + latency * math.log2(n) + per_rank * n / cores
        step += forks * math.log2(t) + (apart if x in ("none", "unset") else 0)
        if W in knobs:
            step = slower(step, loading * own / max(0.5, w))
        cores_of_rank = {"core": 1.0, "numa": cores / nodes, "share": own}.get(str(x), cores)
        return step * max(over(n * (t + w), cores, power), over(t, cores_of_rank, 1))

    default = rng.choice([(cores, 1), (cores, most), (1, most)])  # a launcher binds, or does not
    return Job(
        name, knobs, cores, cores, rng.randint(60, 200), time,
        (*default, *[values[0] for values in knobs.values()][2:]), draw(3, 8), draw(0.02, 0.05),
        fails=(lambda *_: False) if kind in kinds else refuses, reason="the grid does not divide",
        best_s=draw(10, 20), grows=rng.random() < 0.5, cold=list(knobs.keys() - {T, W}),
    )  # fmt: skip


KINDS: Mapping[str, Callable[[str, random.Random], Job]] = {
    "corner": _corner,
    "few": _few,
    "flat": _flat,
    "augment": _augment,
    "six": _six,
    "two": _two,
    **dict.fromkeys(("numa", "messages", "amdahl", "refused"), _hybrid),
}


def instances() -> list[Job]:
    """Those of each kind, by turns to choose on and to report."""
    return [
        make(f"{('tune', 'hold')[number % 2]}-{kind}-{number}", random.Random(f"{kind}/{number}"))
        for kind, make in KINDS.items()
        for number in range(INSTANCES)
    ]


def document(job: Job, seed: int, runs: int = 30) -> dict[str, Any]:
    """The surface of a job."""
    rng = random.Random(seed)
    keys = list(itertools.product(*job.knobs.values()))
    fastest = min(job.time(*key) for key in keys)
    points = []
    for key in keys:
        setting = dict(zip(job.knobs, key, strict=True))
        if job.fails(*key):
            failed = {"fail_after_s": 0.8 * job.startup_s, "reason": job.reason}
            points.append(
                {"setting": setting, "failed": True, "runs": [], "truth_s": None} | failed
            )
            continue
        middle_s = job.time(*key) / fastest * job.best_s
        rows = [_run(job, middle_s, _sd(job, setting), rng) for _ in range(runs)]
        truth_s = middle_s * (1 + 3.0 / job.iterations)
        points.append({"setting": setting, "failed": False, "runs": rows, "truth_s": truth_s})
    return {
        "name": job.name,
        "model": True,
        "machine": {"physical_cores": job.cores},
        "ranks": job.ranks,
        "iterations": job.iterations,
        "knobs": {name: list(values) for name, values in job.knobs.items()},
        "cold": list(job.cold),
        "default": dict(zip(job.knobs, job.default, strict=True)),
        "run_columns": ["startup_s", "first_iteration_s", "elapsed_s"],
        "points": points,
    }


def _sd(job: Job, setting: Mapping[str, Any]) -> float:
    """The spread of a setting's runs: larger where the cores are overfull."""
    threads, workers, each = setting.get(T, 1), setting.get(W, 0), setting.get(CV, 1)
    full = setting.get(N, job.ranks) * (threads + workers * each) / job.cores
    if not job.grows or full <= 1:
        return job.sd
    return min(0.15, job.sd * (1 + math.log2(full)))


def _run(job: Job, middle_s: float, sd: float, rng: random.Random) -> list[float]:
    elapsed_s = middle_s * math.exp(sd * rng.gauss(0, 1))
    if rng.random() < job.outliers:
        elapsed_s *= rng.uniform(2, 3)
    first_s = elapsed_s / job.iterations * (1 + 3.0 * rng.uniform(0.5, 1.5))
    started_s = job.startup_s * math.exp(0.05 * rng.gauss(0, 1))
    return [round(started_s, 3), round(first_s, 4), round(elapsed_s + first_s, 3)]


def write(folder: Path) -> list[Path]:
    """Write a file for each job; the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed, job in enumerate(instances(), start=FIRST_SEED):
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
