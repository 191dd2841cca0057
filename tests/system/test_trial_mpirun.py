"""Trials under the real mpirun and torchrun, with a tiny trainer that writes Chainer's log."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.system.jobs import ENVIRON, failed, finished, run_trainer
from tuner.launch import launchers
from tuner.model import (
    Env,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    LauncherInfo,
    Progress,
    Setting,
    Stopped,
    Verdict,
)
from tuner.search.stopper import Limit, Noise, ProjectionStopper

pytestmark = pytest.mark.system

OMP = Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")))
OPENCV = Knob("opencv_threads", IntRange(1, 64), Env(("OPENCV_FOR_THREADS_NUM",)))
CPUS = len(os.sched_getaffinity(0))


def test_a_run_that_may_win_is_followed_to_its_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    body = """
from mpi4py import MPI
if rank == 0:
    report(0.5)
MPI.COMM_WORLD.Barrier()
time.sleep(0.5)
if rank == 0:
    report(0.5, 1.25)
"""
    stopper = ProjectionStopper(Limit(1.4), Noise(), 2)
    options = {"expected_iterations": 2, "on_progress": seen.append, "stopper": stopper}
    outcome = run_trainer(tmp_path, body, options=options)
    assert outcome.ending == Finished(1.25, 2), outcome.ending
    assert [(entry.iteration, entry.elapsed_s) for entry in seen] == [(1, 0.5), (2, 1.25)]
    assert all(entry.seen_s is not None for entry in seen)
    assert outcome.observation is not None
    for rank in outcome.observation.ranks:
        assert (rank.world_size, bool(rank.mpi_library)) == (2, True)
        assert rank.threads >= 1 and rank.affinity


def test_what_cannot_win_is_stopped_with_its_workers(tmp_path: Path) -> None:
    body = """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    time.sleep(50)
if rank == 0:
    for n in range(1, 1000):
        time.sleep(0.2)
        report(*(10.0 * entry for entry in range(1, n + 1)))
time.sleep(50)
"""
    stopper = ProjectionStopper(Limit(50.0), Noise(), 100)
    outcome = run_trainer(tmp_path, body, options={"expected_iterations": 100, "stopper": stopper})
    assert isinstance(outcome.ending, Stopped), outcome.ending
    assert outcome.ending.projection_s > 50
    assert outcome.ending.bound_s <= 10.0 * outcome.progress[-1].iteration + outcome.wall_s
    assert outcome.samples == ()
    assert outcome.observation is not None
    assert max(rank.children for rank in outcome.observation.ranks) >= 1


def test_ranks_that_do_not_find_each_other_are_no_result(tmp_path: Path) -> None:
    """As under an mpirun whose process manager the ranks' MPI does not understand."""
    pytest.importorskip("mpi4py")
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\nwhile [ "$1" != -n ]; do shift; done\nshift 2\n'
        'PMI_RANK=0 PMI_SIZE=2 "$@" &\nPMI_RANK=1 PMI_SIZE=2 "$@" &\nwait\n'
    )
    mpirun.chmod(0o755)
    info = LauncherInfo("mpich", str(mpirun), "5.0.2")
    ending = failed(run_trainer(tmp_path, "from mpi4py import MPI; report(1.0)", launcher=info))
    assert ending.kind is FailureKind.WRONG_WORLD
    assert "a world of 1 instead of 2" in ending.reason
    assert f"mpich 5.0.2 ({mpirun})" in ending.reason


@pytest.mark.parametrize(
    ("imports", "knob", "value", "verdict", "observed"),
    [
        ("numpy", OMP, CPUS + 2, Verdict.CAPPED, CPUS),
        ("threadpoolctl, numpy; threadpoolctl.threadpool_limits(7)", OMP, 1,
         Verdict.OVERRIDDEN, 7),
        ("cv2", OPENCV, 3, Verdict.HONOURED, 3),
        ("cv2; cv2.setNumThreads(5)", OPENCV, 3, Verdict.OVERRIDDEN, 5),
    ],
)  # fmt: skip
def test_the_effect_of_a_knob_is_what_the_ranks_have(
    tmp_path: Path, imports: str, knob: Knob, value: int, verdict: Verdict, observed: int
) -> None:
    pytest.importorskip(imports.partition(",")[0].partition(";")[0])
    outcome = run_trainer(
        *(tmp_path, f"import {imports}\nreport(1.0)"),
        setting=Setting.of({knob.name: value}),
        knobs=(knob,),
    )
    finished(outcome)
    (effect,) = outcome.effects
    assert (effect.verdict, effect.observed) == (verdict, observed)


# --- torchrun; the trainer has no need of torch, which would only cost time -----------------------


@pytest.fixture
def torchrun() -> LauncherInfo:
    pytest.importorskip("torch")
    return launchers.find(None, kind="torchrun", program=sys.executable, environ=ENVIRON)


@pytest.mark.slow
def test_a_full_run_under_torchrun(tmp_path: Path, torchrun: LauncherInfo) -> None:
    setting = Setting.of({"omp_threads": 1})
    body = "import numpy; report(0.5)"
    outcome = run_trainer(tmp_path, body, setting=setting, knobs=(OMP,), launcher=torchrun)
    finished(outcome)
    assert [effect.verdict for effect in outcome.effects] == [Verdict.HONOURED]
    assert outcome.observation is not None
    assert [(r.rank, r.world_size) for r in outcome.observation.ranks] == [(0, 2), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ("os.kill(os.getpid(), 9)", FailureKind.CRASHED, "killed by SIGKILL: rank 1 was killed"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", FailureKind.STALLED, "rank 1 is stopped"),
        ("os.kill(os.getppid(), 15)", FailureKind.INTERRUPTED, "torchrun was ended by SIGTERM"),
    ],
)
def test_how_torchrun_ends_badly(
    tmp_path: Path, torchrun: LauncherInfo, body: str, kind: FailureKind, reason: str
) -> None:
    body = f'subprocess.Popen(["sleep", "600"])\nif rank == 1: {body}\ntime.sleep(600)'
    ending = failed(run_trainer(tmp_path, body, launcher=torchrun, stall_limit_s=3.0))
    assert ending.kind is kind and reason in ending.reason
