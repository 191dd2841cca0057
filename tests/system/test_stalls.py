"""Jobs that hang, and one that does not, under the real mpirun."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.hosts import machine
from tuner.launch import launchers, render, trial
from tuner.model import Failed, FailureKind, Finished, Layout, Outcome, Setting, StudySpec

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

Run = Callable[[str], tuple[Outcome, Path]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a trainer of two ranks with a low limit; its outcome and its folder."""

    def run_trainer(body: str) -> tuple[Outcome, Path]:
        script = tmp_path / "train.py"
        script.write_text(TRAINER + body)
        mpirun = launchers.find(None, environ=os.environ)
        command = (sys.executable, str(script), "{out}")
        host = machine.this_machine()
        spec = StudySpec("hang", command, mpirun, Layout(2), host, (), stall_limit_s=LIMIT_S)
        folder, setting = tmp_path / "trial", Setting.of({})
        launch = render.launch(
            spec, setting, folder, environ=os.environ, cwd=tmp_path, marker=uuid.uuid4().hex
        )
        found = trial.run(launch, spec=spec, setting=setting, expected_iterations=None)
        return found, folder

    return run_trainer


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
def test_a_hang_is_noticed_and_its_stacks_are_kept(run: Run, name: str) -> None:
    body, said = STALLS[name]
    outcome, folder = run(body)
    assert isinstance(outcome.ending, Failed), outcome.ending
    assert outcome.ending.kind is FailureKind.STALLED, outcome.ending
    assert outcome.ending.reason.startswith("nothing happened for 3 s: ")
    assert said in outcome.ending.reason
    for rank in (0, 1):
        text = (folder / f"stacks/rank-{rank}.txt").read_text()
        assert "train.py" in text or "No stack" in text


def test_a_long_evaluation_of_one_rank_is_none(run: Run) -> None:
    body = f"""
if rank == 0:
    end = time.monotonic() + 2.5 * {LIMIT_S}
    while time.monotonic() < end:
        sum(range(10_000))
    report(0.1, 0.2)
world.Barrier()
"""
    outcome, _ = run(body)
    assert outcome.ending == Finished(0.2, 2)
