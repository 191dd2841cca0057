"""Trains a small network on several processes: NumPy and multiprocessing, without MPI or network.

    python workloads/numpy_training.py --benchmark --processes 4 --out result

Each process computes the gradient of its part of the batch and updates its part of the weights.
Unless it is told otherwise, BLAS starts as many threads in each process as the machine has cores.
The log in `--out` has a line for each iteration: `iteration`, `elapsed_time` (s) and `loss`.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer_options import Parser, WorkloadError, number

NAME = Path(__file__).name

#: Units in each of the two layers, and examples of a step on all processes together.
WIDTH, BATCH = 512, 1024
#: Iterations of a benchmark run (a third of a second, well set, on 2 cores), and of a whole job.
BENCHMARK_ITERATIONS, JOB_ITERATIONS = 20, 3000
RATE = 0.5
#: A process that waits longer for the others has lost one of them, s.
LIMIT_S = 120.0


def parse(argv: Sequence[str]) -> Namespace:
    """Read a command line; raises ``WorkloadError``."""
    parser = Parser(NAME, str(__doc__))
    number(parser, "-p", "--processes", default=4, help="processes that share the batch")
    number(parser, "-b", "--batchsize", help=f"examples of a process [its share of {BATCH}]")
    text = f"[{JOB_ITERATIONS}; with --benchmark: {BENCHMARK_ITERATIONS}]"
    number(parser, "-i", "--iterations", help=f"iterations to make {text}")
    text = "a short run, the same work per iteration"
    parser.add_argument("--benchmark", action="store_true", help=text)
    text = "folder of the log [result]"
    parser.add_argument("-o", "--out", type=Path, default=Path("result"), metavar="DIR", help=text)
    options = parser.parse_args(argv)
    if options.processes > BATCH:
        raise WorkloadError(f"--processes {options.processes}: the batch has {BATCH} examples")
    options.batchsize = options.batchsize or BATCH // options.processes
    usual_number = BENCHMARK_ITERATIONS if options.benchmark else JOB_ITERATIONS
    options.iterations = options.iterations or usual_number
    return options


def train(rank: int, options: Namespace, shared: Any, barrier: Any) -> None:
    """Make every iteration as one of the processes; the first one, rank 0, writes the log.

    ``shared`` has the weights, then the gradient and the loss of each process.
    """
    size = options.processes
    memory = np.frombuffer(shared, np.float32)
    count = 2 * WIDTH * WIDTH
    weights = memory[:count].reshape(2, WIDTH, WIDTH)
    gradients = memory[count : count * (size + 1)].reshape(size, 2, WIDTH, WIDTH)
    losses = memory[count * (size + 1) :]
    part = slice(rank * options.batchsize, (rank + 1) * options.batchsize)
    batch = options.batchsize * size
    examples = np.random.default_rng(0).standard_normal((batch, WIDTH), dtype=np.float32)[part]
    rows = slice(rank * WIDTH // size, (rank + 1) * WIDTH // size)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "log.jsonl" if rank == 0 else Path("/dev/null")).open("w") as log:
        barrier.wait()
        begin_s = time.perf_counter()
        for iteration in range(1, options.iterations + 1):
            hidden = np.tanh(examples @ weights[0])
            error = hidden @ weights[1] - examples  # the network learns to repeat its input
            losses[rank] = np.square(error).sum()
            gradients[rank, 1] = hidden.T @ error
            gradients[rank, 0] = examples.T @ ((error @ weights[1].T) * (1 - hidden**2))
            barrier.wait()
            weights[:, rows] -= RATE / batch * gradients[:, :, rows].sum(axis=0)
            entry = {
                "iteration": iteration,
                "elapsed_time": time.perf_counter() - begin_s,
                "loss": float(losses.sum()) / (batch * WIDTH),
            }
            log.write(json.dumps(entry) + "\n")
            log.flush()
            barrier.wait()


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 if that is refused."""
    try:
        options = parse(argv)
    except WorkloadError as error:
        print(f"{NAME}: error: {error}", file=sys.stderr)
        return 2
    start = multiprocessing.get_context("fork")  # the memory is shared, and NumPy loaded once
    count = 2 * WIDTH * WIDTH
    shared = start.RawArray("f", count * (options.processes + 1) + options.processes)
    weights = np.random.default_rng(1).standard_normal(count, dtype=np.float32) / WIDTH**0.5
    np.frombuffer(shared, np.float32)[:count] = weights
    barrier = start.Barrier(options.processes, timeout=LIMIT_S)
    others = [
        start.Process(target=train, args=(rank, options, shared, barrier), daemon=True)
        for rank in range(1, options.processes)
    ]
    for process in others:
        process.start()
    train(0, options, shared, barrier)
    for process in others:
        process.join()
    return max((abs(process.exitcode or 0) for process in others), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
