"""Trials under the real mpirun and torchrun, with a tiny trainer that writes Chainer's log."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tuner.hosts import machine, process
from tuner.hosts.procfs import Stat, processes
from tuner.hosts.supervisor.table import carriers
from tuner.launch import launchers, render, trial
from tuner.model import (
    Effect,
    Env,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    Layout,
    Outcome,
    Progress,
    Setting,
    Stopped,
    StudySpec,
    Verdict,
)
from tuner.search.stopper import Limit, Noise, ProjectionStopper

pytestmark = pytest.mark.system

KNOBS = (
    Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))),
    Knob("opencv_threads", IntRange(1, 64), Env(("OPENCV_FOR_THREADS_NUM",))),
)

TRAINER = """
import json, os, signal, subprocess, sys, time
names = "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"
out, rank = sys.argv[1], int(next(os.environ[name] for name in names if name in os.environ))

def report(*elapsed):
    log = [{"epoch": 0, "iteration": n, "elapsed_time": t} for n, t in enumerate(elapsed, 1)]
    partial = f"{out}/partial-{rank}"
    with open(partial, "w") as file:
        json.dump(log, file)
    os.replace(partial, out + "/log")

print("rank", rank, "begins", flush=True)
"""

Follow = Callable[..., Outcome]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """Run a trainer on two ranks; afterwards nothing of it may be alive."""

    def run_trainer(
        body: str,
        *,
        launcher: LauncherInfo | None = None,
        kind: str | None = None,
        limits: Mapping[str, Any] = MappingProxyType({"trial_limit_s": 60.0}),
        following: Mapping[str, Any] = MappingProxyType({}),
        **values: int,
    ) -> Outcome:
        (tmp_path / "train.py").write_text(TRAINER + body)
        environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        found = launcher or launchers.find(None, kind=kind, program=sys.executable, environ=environ)
        command = (sys.executable, str(tmp_path / "train.py"), "{out}")
        host, setting, marker = machine.this_machine(), Setting.of(values), uuid.uuid4().hex
        spec = StudySpec("test", command, found, Layout(2), host, KNOBS, **limits)
        launch = render.launch(
            spec, setting, tmp_path / "trial 1", environ=environ, cwd=tmp_path, marker=marker
        )
        options: dict[str, Any] = {"expected_iterations": None, **following}
        try:
            return trial.run(launch, spec=spec, setting=setting, **options)
        finally:
            assert alive(launch) == []

    return run_trainer


def alive(launch: Launch) -> list[Stat]:
    """The live processes that carry the trial's marker."""
    return carriers(processes(), launch.env[process.MARKER])


def pairs(progress: Sequence[Progress]) -> list[tuple[int, float]]:
    assert all(entry.seen_s is not None for entry in progress)
    return [(entry.iteration, entry.elapsed_s) for entry in progress]


def failure(outcome: Outcome) -> Failed:
    assert isinstance(outcome.ending, Failed), outcome.ending
    return outcome.ending


def effect(outcome: Outcome) -> Effect:
    assert isinstance(outcome.ending, Finished), outcome.ending
    (only,) = outcome.effects
    return only


# --- endings -----------------------------------------------------------------------------


def test_a_full_run_is_followed_to_its_end(follow: Follow) -> None:
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
    following = {"expected_iterations": 2, "on_progress": seen.append}
    outcome = follow(body, following=following)
    assert outcome.ending == Finished(1.25, 2), outcome.ending
    assert pairs(seen) == [(1, 0.5), (2, 1.25)]
    assert [rank.world_size for rank in outcome.observation.ranks] == [2, 2]
    assert all(rank.mpi_library for rank in outcome.observation.ranks)
    assert all(rank.threads >= 1 and rank.affinity for rank in outcome.observation.ranks)


def test_what_cannot_win_is_stopped(follow: Follow) -> None:
    body = """
if rank == 0:
    for n in range(1, 1000):
        time.sleep(0.2)
        report(*(10.0 * entry for entry in range(1, n + 1)))
time.sleep(50)
"""
    stopper = ProjectionStopper(Limit(50.0), Noise(), 100)
    outcome = follow(body, following={"expected_iterations": 100, "stopper": stopper})
    assert isinstance(outcome.ending, Stopped), outcome.ending
    assert outcome.ending.projection_s > 50
    assert outcome.ending.bound_s <= 10.0 * outcome.progress[-1].iteration + outcome.wall_s
    assert outcome.samples == ()


def test_what_may_yet_win_is_left_alone(follow: Follow) -> None:
    body = """
for n in range(1, 6):
    time.sleep(0.2)
    if rank == 0:
        report(*(0.2 * entry for entry in range(1, n + 1)))
"""
    stopper = ProjectionStopper(Limit(1.1), Noise(), 5)
    outcome = follow(body, following={"expected_iterations": 5, "stopper": stopper})
    assert outcome.ending == Finished(1.0, 5), outcome.ending


def test_the_limit_ends_the_ranks_and_their_workers(follow: Follow) -> None:
    body = """
report(0.25)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
time.sleep(50)
"""
    outcome = follow(body, limits={"trial_limit_s": 2.0})
    assert failure(outcome).kind is FailureKind.LIMIT
    assert pairs(outcome.progress) == [(1, 0.25)]
    assert max(rank.children for rank in outcome.observation.ranks) >= 1


def test_ranks_that_do_not_find_each_other_are_no_result(follow: Follow, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    # As an mpirun does whose process manager the ranks' MPI does not understand.
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        """#!/bin/sh
while [ "$1" != -n ]; do shift; done
shift 2
PMI_RANK=0 PMI_SIZE=2 "$@" &
PMI_RANK=1 PMI_SIZE=2 "$@" &
wait
"""
    )
    mpirun.chmod(0o755)
    ending = failure(
        follow(
            "from mpi4py import MPI; report(1.0)",
            launcher=LauncherInfo("mpich", str(mpirun), "5.0.2"),
        )
    )
    assert ending.kind is FailureKind.WRONG_WORLD
    assert "a world of 1 instead of 2" in ending.reason
    assert f"mpich 5.0.2 ({mpirun})" in ending.reason


# --- effects -----------------------------------------------------------------------------


def test_more_threads_than_cores_are_capped(follow: Follow) -> None:
    cores = machine.this_machine().cores
    found = effect(follow("import numpy; report(1.0)", omp_threads=cores + 2))
    # A quota is no concern of OpenBLAS, which counts the CPUs that it may run on.
    if len(os.sched_getaffinity(0)) == cores:
        assert (found.verdict, found.observed) == (Verdict.CAPPED, cores)


def test_a_program_that_sets_its_threads_overrides(follow: Follow) -> None:
    pytest.importorskip("threadpoolctl")
    body = "import numpy, threadpoolctl; threadpoolctl.threadpool_limits(7); report(1.0)"
    found = effect(follow(body, omp_threads=1))
    assert (found.verdict, found.observed) == (Verdict.OVERRIDDEN, 7)


def test_opencv_is_honoured_or_overridden(follow: Follow) -> None:
    pytest.importorskip("cv2")
    assert effect(follow("import cv2; report(1.0)", opencv_threads=3)).verdict is Verdict.HONOURED
    found = effect(follow("import cv2; cv2.setNumThreads(5); report(1.0)", opencv_threads=3))
    assert (found.verdict, found.observed) == (Verdict.OVERRIDDEN, 5)


# --- torchrun; the trainer has no need of torch, which would only cost time -----------------------


@pytest.mark.slow
def test_a_full_run_under_torchrun(follow: Follow) -> None:
    pytest.importorskip("torch")
    outcome = follow("import numpy; report(0.5)", kind="torchrun", omp_threads=1)
    assert effect(outcome).verdict is Verdict.HONOURED
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
def test_how_torchrun_ends_badly(follow: Follow, body: str, kind: FailureKind, reason: str) -> None:
    pytest.importorskip("torch")
    body = f'subprocess.Popen(["sleep", "600"])\nif rank == 1: {body}\ntime.sleep(600)'
    ending = failure(follow(body, kind="torchrun", limits={"stall_limit_s": 3.0}))
    assert ending.kind is kind and reason in ending.reason
