"""A trainer in which each part can be made slow: its loading, its work, its exchange, a rank."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from importlib import import_module
from multiprocessing.queues import Queue
from pathlib import Path


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path)
    options.add_argument("--iterations", type=int, default=20)
    options.add_argument("--work-ms", type=float, default=0.0)  # CPU time an iteration
    options.add_argument("--matrix", type=int, default=0)  # a product of such, by BLAS
    options.add_argument("--blas", type=int, default=0)  # its threads
    options.add_argument("--load-ms", type=float, default=0.0)  # a worker sleeps for a batch
    options.add_argument("--workers", type=int, default=0)
    options.add_argument("--worker-ms", type=float, default=0.0)  # and computes
    options.add_argument("--sleepy", type=int, default=-1)  # this rank sleeps
    options.add_argument("--sleep-ms", type=float, default=0.0)
    args = options.parse_args()
    batches: Queue[int] = multiprocessing.get_context("fork").Queue(2)
    said = (batches, args.load_ms, args.worker_ms)
    workers = [
        multiprocessing.get_context("fork").Process(target=produce, args=said)
        for _ in range(args.workers)
    ]
    for worker in workers:
        worker.start()
    train(args, batches)
    for worker in workers:
        worker.kill()
    batches.cancel_join_thread()


def produce(batches: Queue[int], load_ms: float, worker_ms: float) -> None:
    """What a loader worker does."""
    while True:
        time.sleep(load_ms / 1e3)
        work(worker_ms)
        batches.put(0)


def work(cpu_ms: float) -> None:
    end_s = time.thread_time() + cpu_ms / 1e3
    while time.thread_time() < end_s:
        sum(range(2000))


def train(args: argparse.Namespace, batches: Queue[int]) -> None:
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if args.blas:
        import_module("threadpoolctl").threadpool_limits(args.blas)
    matrix = np.random.default_rng(0).random((args.matrix, args.matrix))
    sent = np.zeros(1)
    received = np.empty_like(sent)
    world.Barrier()
    begun_s = time.monotonic()
    log = []
    for iteration in range(1, args.iterations + 1):
        if args.workers:
            batches.get()
        work(args.work_ms)
        if args.matrix:
            matrix @ matrix
        if world.rank == args.sleepy:
            time.sleep(args.sleep_ms / 1e3)
        world.Allreduce(sent, received)
        log.append({"iteration": iteration, "elapsed_time": time.monotonic() - begun_s})
        if world.rank == 0:
            draft = args.out / "draft"
            draft.write_text(json.dumps(log))
            draft.rename(args.out / "log")
    world.Barrier()


if __name__ == "__main__":
    main()
