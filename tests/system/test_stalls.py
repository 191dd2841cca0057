"""Jobs that hang, and one that does not, under the real mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.jobs import run_trainer
from tuner.model import Failed, FailureKind, Finished

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIMIT_S = 3.0

TRAINER = """
import json, os, signal, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
rank = world.rank
def report(*elapsed):
    log = [{"iteration": n, "elapsed_time": t} for n, t in enumerate(elapsed, 1)]
    with open(sys.argv[1] + "/draft", "w") as file:
        json.dump(log, file)
    os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
if rank == 0:
    report(0.1)
"""

STALLS = {
    "one sleeps": (
        "if rank == 1: time.sleep(600)\nworld.Barrier()",
        "rank 1 is idle, the others wait; stacks",
    ),
    "all wait for each other": (
        "world.recv(source=1 - rank)",
        "all ranks wait for each other; stacks",
    ),
    "one is stopped": (
        "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)\nworld.Barrier()",
        "a process of rank 1 is stopped by a signal; stacks",
    ),
    "a worker is killed": (
        """
read, write = os.pipe()
worker = os.fork()
if worker == 0:
    time.sleep(600)
if rank == 1:
    os.kill(worker, signal.SIGKILL)
    os.read(read, 1)
world.Barrier()
""",
        "rank 1 is idle, the others wait; stacks",
    ),
}


@pytest.mark.parametrize("name", STALLS)
def test_a_hang_is_noticed_and_its_stacks_are_kept(tmp_path: Path, name: str) -> None:
    body, said = STALLS[name]
    outcome = run_trainer(tmp_path, TRAINER + body, ranks=2, stall_limit_s=LIMIT_S)
    assert isinstance(outcome.ending, Failed), outcome.ending
    assert outcome.ending.kind is FailureKind.STALLED, outcome.ending
    assert outcome.ending.reason.startswith("nothing happened for 3 s: ")
    assert said in outcome.ending.reason
    for rank in (0, 1):
        text = (tmp_path / f"trial/stacks/rank-{rank}.txt").read_text()
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
    outcome = run_trainer(tmp_path, TRAINER + body, ranks=2, stall_limit_s=LIMIT_S)
    assert outcome.ending == Finished(0.2, 2)
