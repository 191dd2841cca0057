"""Chunks of the targets in processes of their own, several at a time."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed

from fuzz import engine, guided
from fuzz.targets import TARGETS

#: Address space of one worker, bytes: an input that makes a parser want more is a finding.
_MEMORY = 4 << 30


def seeded_chunks(counts: Mapping[str, int], seed: int, jobs: int) -> Iterator[engine.Chunk]:
    """So many inputs of each target's own source, in the order in which they get done."""
    work = [
        (name, seed, number, inputs)
        for name, count in counts.items()
        for number, inputs in engine.chunks(count)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_limit_memory) as pool:
        futures = [pool.submit(_chunk, *each) for each in work]
        for future in as_completed(futures):
            yield future.result()


def guided_chunks(counts: Mapping[str, int], seed: int, jobs: int) -> Iterator[engine.Chunk]:
    """So many inputs of each target, chosen by coverage."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [pool.submit(guided.run, name, seed, count) for name, count in counts.items()]
        for future in as_completed(futures):
            yield future.result()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _chunk(name: str, seed: int, number: int, inputs: int) -> engine.Chunk:
    return engine.run(TARGETS[name], seed=seed, number=number, inputs=inputs)
