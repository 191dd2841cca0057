"""What it costs a run to write LogReport about twenty times and not once.

    python benchmarks/log_report_cost.py [--pairs 24] [--ranks 8]

One job of the MNIST trainer, in pairs of blocks of iterations: in one of the two rank 0
writes the log thirty times an iteration, in the other never; their order alternates. So often,
since one write is far below the noise of an iteration. It is the pace of the whole job that is
measured: where ranks share cores, the time that rank 0 spends inside LogReport says little,
for the other ranks go on meanwhile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

TARGET = 0.01
BLOCK = 4  # iterations
WRITES = 30  # per iteration, in every other block
RUN_WRITES = 20  # the trainer's default
ROOT = Path(__file__).resolve().parents[1]
RANK = "--as-rank"  # this file is also the program that mpirun starts


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--pairs", type=int, default=24)
    options.add_argument("--ranks", type=int, default=8)
    chosen = options.parse_args()
    pairs = measured(chosen.pairs, chosen.ranks)
    iterations = benchmark_iterations()
    each_s = [(dense_s - bare_s) / (BLOCK * WRITES) for dense_s, bare_s in pairs]
    iteration_s = statistics.median(bare_s for _, bare_s in pairs) / BLOCK
    costs = [write_s * RUN_WRITES / (iteration_s * iterations) for write_s in each_s]
    cost = statistics.median(costs)
    quarter, _, three_quarters = statistics.quantiles(costs, n=4)
    print(f"{'an iteration, ms':28}{iteration_s * 1e3:8.1f}")
    print(f"{'a write, ms':28}{statistics.median(each_s) * 1e3:8.2f}")
    print(f"{f'{RUN_WRITES} writes in {iterations} iterations':28}{cost:8.2%}", end="")
    print(f"   (half of the pairs: {quarter:.2%} to {three_quarters:.2%})")
    print(f"{'target':28}{TARGET:8.2%}   {'met' if cost < TARGET else 'missed'}", end="")
    print(f" ({chosen.pairs} pairs, {chosen.ranks} ranks)")


def benchmark_iterations() -> int:
    """The length of the trainer's own benchmark mode."""
    sys.path.insert(0, str(ROOT / "workloads"))
    from chainer_mnist import ITERATIONS

    return ITERATIONS


def measured(pairs: int, ranks: int) -> list[tuple[float, float]]:
    """Seconds of each pair's blocks, with and without writes, in one well-set job."""
    from tuner.launch.launchers import find, launcher_for

    info = find(None, environ=os.environ)
    launcher = launcher_for(info.kind)
    # The first pair is thrown away: it has the first iteration.
    iterations = str((pairs + 1) * 2 * BLOCK)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        program = [sys.executable, "-m", "mpi4py", str(Path(__file__).resolve()), RANK, str(report)]
        program += ["--benchmark", "--loaderjob", "1", "--log-writes", "1", "--out", folder]
        subprocess.run(
            launcher.argv(info, ranks, {"bind_to": "none"}, [*program, "--iterations", iterations]),
            env={**os.environ, **launcher.environment(info), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        ends_s = json.loads(report.read_text())
    blocks_s = [end - begin for begin, end in pairwise(ends_s)][2:]
    split = zip(blocks_s[::2], blocks_s[1::2], strict=True)
    return [
        (first, second) if writes_in(2 + 2 * index) else (second, first)
        for index, (first, second) in enumerate(split)
    ]


def writes_in(block: int) -> bool:
    """Whether rank 0 writes in a block: first in one pair, second in the next."""
    return block % 4 in (0, 3)


def rank(report: Path, argv: Sequence[str]) -> int:
    """Train, with a LogReport (which rank 0 alone has) that writes as the block asks."""
    sys.path.insert(0, str(ROOT / "workloads"))
    import chainer_mnist  # makes Chainer importable

    extensions = importlib.import_module("chainer.training.extensions")
    original = extensions.LogReport.__call__
    written = extensions.LogReport(trigger=lambda _trainer: True, filename="written")
    ends_s = [time.perf_counter()]

    def timed(_: Any, trainer: Any) -> None:
        block, place = divmod(trainer.updater.iteration - 1, BLOCK)
        if writes_in(block):
            for _repeat in range(WRITES):
                del written.log[:-10]  # a run's log has ten entries on average
                original(written, trainer)
        if place == BLOCK - 1:
            ends_s.append(time.perf_counter())
            report.write_text(json.dumps(ends_s))

    extensions.LogReport.__call__ = timed
    return chainer_mnist.main(argv)


if __name__ == "__main__":
    if sys.argv[1:2] == [RANK]:
        sys.exit(rank(Path(sys.argv[2]), sys.argv[3:]))
    main()
