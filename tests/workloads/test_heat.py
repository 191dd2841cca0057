"""The heat equation of the stencil program, dealt out to ranks that are threads here."""

from __future__ import annotations

import math
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import heat

SIZES = st.integers(1, 12)


class Wires:
    """What is under way between the ranks of a job."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[int, int, int], queue.Queue[Any]] = {}

    def box(self, sender: int, receiver: int, tag: int) -> queue.Queue[Any]:
        """Whoever asks first makes it: in one step, or each would have one of its own."""
        return self._boxes.setdefault((sender, receiver, tag), queue.Queue())


class World:
    """One rank's communicator."""

    def __init__(self, wires: Wires, rank: int) -> None:
        self.wires, self.rank = wires, rank

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = 0,
        recvtag: int = 0,
    ) -> None:
        self.wires.box(self.rank, dest, sendtag).put(sendbuf.copy())
        recvbuf[:] = self.wires.box(source, self.rank, recvtag).get(timeout=10)


def solved(problem: heat.Problem, size: int, steps: int) -> list[heat.Slab]:
    """The slabs of ``size`` ranks after ``steps`` steps."""
    wires = Wires()

    def work(rank: int) -> heat.Slab:
        slab = heat.Slab(problem, rank, size)
        for _ in range(steps):
            slab.step(World(wires, rank))
        return slab

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


def field(slabs: list[heat.Slab]) -> heat.Field:
    return np.concatenate([slab.field for slab in slabs])


@settings(deadline=None, max_examples=40)
@given(rows=SIZES, columns=SIZES, sweeps=st.integers(1, 3), steps=st.integers(0, 4), data=st.data())
def test_any_number_of_ranks_gives_the_field_of_one(
    rows: int, columns: int, sweeps: int, steps: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, rows))
    problem = heat.Problem(rows, columns, sweeps)
    alone, together = solved(problem, 1, steps), solved(problem, size, steps)
    assert [len(slab.field) for slab in together] == [
        rows // size + (rank < rows % size) for rank in range(size)
    ]
    np.testing.assert_allclose(field(together), field(alone), rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(rows=SIZES, columns=SIZES, steps=st.integers(0, 6))
def test_heat_is_conserved_and_the_solution_is_the_known_one(
    rows: int, columns: int, steps: int
) -> None:
    size = min(rows, 3)
    slabs = solved(heat.Problem(rows, columns, 2), size, steps)
    before = solved(heat.Problem(rows, columns, 2), size, 0)
    assert sum(slab.total() for slab in slabs) == pytest.approx(sum(s.total() for s in before))
    assert max(slab.error(steps) for slab in slabs) < heat.TOLERANCE


def test_a_lost_row_is_seen() -> None:
    class Deaf(World):
        """A rank whose row from above never comes."""

        def Sendrecv(self, *args: Any, **kwargs: Any) -> None:
            if args[2] == 1:
                super().Sendrecv(*args, **kwargs)

    slab = heat.Slab(heat.Problem(64, 16, 2), 0, 1)
    world = Deaf(Wires(), 0)
    slab._padded[0] = 0
    slab.step(world)
    assert slab.error(1) > 1e-2


def test_what_is_no_number_is_a_wrong_result() -> None:
    slab = heat.Slab(heat.Problem(4, 4, 1), 0, 1)
    slab.field[0, 0] = math.nan
    assert slab.error(0) == math.inf
