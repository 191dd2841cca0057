"""Trials under the real torchrun; the trainer has no need of torch, which would only cost time."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.hosts import machine
from tuner.hosts.supervisor.table import Process, carriers, processes
from tuner.launch import launchers, render, trial
from tuner.model import (
    Env,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    Layout,
    Outcome,
    Setting,
    StudySpec,
    Verdict,
)

pytestmark = [pytest.mark.system, pytest.mark.slow]

KNOBS = (Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))),)

TRAINER = """
import json, os, signal, subprocess, sys, time
rank = int(os.environ["RANK"])
worker = subprocess.Popen(["sleep", "600"])
if rank == 0:
    with open(sys.argv[1] + "/log", "w") as file:
        json.dump([{"iteration": 1, "elapsed_time": 0.5}], file)
"""


@dataclass
class Ran:
    """What came of a launch, and what of it was alive afterwards."""

    outcome: Outcome
    left: list[Process]

    @property
    def failed(self) -> Failed:
        assert isinstance(self.outcome.ending, Failed), self.outcome.ending
        return self.outcome.ending


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a trainer on two ranks under this environment's torchrun."""
    pytest.importorskip("torch")

    def run_trainer(body: str, **values: int) -> Ran:
        (tmp_path / "train.py").write_text(TRAINER + body)
        environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        found = launchers.find(None, kind="torchrun", program=sys.executable, environ=environ)
        command = (sys.executable, str(tmp_path / "train.py"), "{out}")
        host, setting = machine.this_machine(), Setting.of(values)
        spec = StudySpec("t", command, found, Layout(2), host, KNOBS, stall_limit_s=3.0)
        marker, folder = uuid.uuid4().hex, tmp_path / "trial"
        launch = render.launch(spec, setting, folder, environ=environ, cwd=tmp_path, marker=marker)
        outcome = trial.run(launch, spec=spec, setting=setting, expected_iterations=None)
        return Ran(outcome, carriers(processes(), marker))

    return run_trainer


def test_a_full_run(run: Run) -> None:
    body = "import numpy\nprint('threads', os.environ['OMP_NUM_THREADS'])\nworker.kill()"
    ran = run(body, omp_threads=1)
    assert isinstance(ran.outcome.ending, Finished), ran.outcome.ending
    assert ran.outcome.observation is not None
    assert [(r.rank, r.world_size) for r in ran.outcome.observation.ranks] == [(0, 2), (1, 2)]
    assert [effect.verdict for effect in ran.outcome.effects] == [Verdict.HONOURED]
    assert ran.left == []


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ("os.kill(os.getpid(), 9)", FailureKind.CRASHED, "killed by SIGKILL: rank 1 was killed"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", FailureKind.STALLED, "rank 1 is stopped"),
        ("os.kill(os.getppid(), 15)", FailureKind.INTERRUPTED, "torchrun was ended by SIGTERM"),
    ],
)
def test_how_it_ends_badly(run: Run, body: str, kind: FailureKind, reason: str) -> None:
    ran = run(f"if rank == 1: {body}\ntime.sleep(600)")
    assert ran.failed.kind is kind
    assert reason in ran.failed.reason
    assert ran.left == []
