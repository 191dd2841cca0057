"""A job that hangs, and one that does not, under the real mpirun; ``tests/faults`` has others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.jobs import failed, run_trainer
from tuner.model import FailureKind, Finished

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIMIT_S = 3.0

BEGIN = """
from mpi4py import MPI
world = MPI.COMM_WORLD
if rank == 0:
    report(0.1)
"""


def test_a_hang_is_noticed_and_its_stacks_are_kept(tmp_path: Path) -> None:
    body = "if rank == 1: time.sleep(600)\nworld.Barrier()"
    ending = failed(run_trainer(tmp_path, BEGIN + body, stall_limit_s=LIMIT_S))
    assert ending.kind is FailureKind.STALLED, ending
    assert ending.reason.startswith("nothing happened for 3 s: rank 1 is idle, the others wait; st")
    for rank in (0, 1):
        text = (tmp_path / f"a trial/stacks/rank-{rank}.txt").read_text()
        assert "train.py" in text or "No stack" in text


def test_a_long_evaluation_of_one_rank_is_none(tmp_path: Path) -> None:
    body = f"""
if rank == 0:
    end = time.monotonic() + 2.5 * {LIMIT_S}
    while time.monotonic() < end:
        sum(range(10_000))
    report(0.1, 0.2)
world.Barrier()
"""
    assert run_trainer(tmp_path, BEGIN + body, stall_limit_s=LIMIT_S).ending == Finished(0.2, 2)
