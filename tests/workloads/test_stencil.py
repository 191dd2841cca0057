"""The heat equation of the stencil program, dealt out to ranks that are threads here."""

from __future__ import annotations

import queue
from argparse import Namespace
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpi_stencil import TOLERANCE, Field, Slab

SIZES = st.integers(1, 12)


class Wires:
    """The communicator of one rank; ``boxes`` has what is under way, by sender, receiver, tag."""

    def __init__(self, boxes: Any, rank: int, lost: int | None = None) -> None:
        self.boxes, self.rank, self.lost = boxes, rank, lost

    def Sendrecv(self, out: Field, to: int, tag: int, into: Field, source: int, same: int) -> None:
        self.boxes[self.rank, to, tag].put(out.copy())
        received = self.boxes[source, self.rank, same].get(timeout=10)
        if tag != self.lost:
            into[:] = received


def grid(rows: int, columns: int, sweeps: int) -> Namespace:
    return Namespace(rows=rows, columns=columns, sweeps=sweeps)


def solved(options: Namespace, size: int, steps: int) -> list[Slab]:
    keys = [(a, b, tag) for a in range(size) for b in range(size) for tag in (1, 2)]
    boxes: dict[Any, queue.Queue[Field]] = {key: queue.Queue() for key in keys}

    def work(rank: int) -> Slab:
        slab = Slab(options, rank, size)
        for _ in range(steps):
            slab.step(Wires(boxes, rank))
        return slab

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


def field(slabs: list[Slab]) -> Field:
    return np.concatenate([slab.field for slab in slabs])


@settings(deadline=None, max_examples=15)
@given(SIZES, st.integers(2, 12), st.integers(1, 3), st.integers(0, 6), st.data())
def test_any_number_of_ranks_finds_the_known_solution_and_conserves_heat(
    rows: int, columns: int, sweeps: int, steps: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    options = grid(rows, columns, sweeps)
    alone, together = solved(options, 1, steps), solved(options, size, steps)
    assert [len(slab.field) for slab in together] == [
        rows // size + (rank < rows % size) for rank in range(size)
    ]
    np.testing.assert_allclose(field(together), field(alone), rtol=0, atol=1e-12)
    assert max(slab.error(steps) for slab in together) < TOLERANCE
    assert field(together).sum() == pytest.approx(field(solved(options, 1, 0)).sum())


def test_a_stale_row_is_seen() -> None:
    slab = Slab(grid(1024, 16, 2), 0, 1)
    boxes: dict[Any, queue.Queue[Field]] = defaultdict(queue.Queue)
    slab.step(Wires(boxes, 0))
    assert slab.error(1) < TOLERANCE
    slab.step(Wires(boxes, 0, lost=1))  # the row from below stays that of the step before
    assert slab.error(2) > TOLERANCE
