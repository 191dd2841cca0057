"""Trials under the real mpirun, with a tiny trainer that writes Chainer's log."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tuner.hosts import machine, process
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
from tuner.search.stopper import EarlyStopper, Limit, Noise, ProjectionStopper

pytestmark = pytest.mark.system

KNOBS = (
    Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))),
    Knob("opencv_threads", IntRange(1, 64), Env(("OPENCV_FOR_THREADS_NUM",))),
)

TRAINER = """
import json, os, sys, time
out, rank = sys.argv[1], int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", 0)))

def report(*elapsed):
    log = [{"epoch": 0, "iteration": n, "elapsed_time": t} for n, t in enumerate(elapsed, 1)]
    partial = f"{out}/partial-{rank}"
    with open(partial, "w") as file:
        json.dump(log, file)
    os.replace(partial, out + "/log")

print("rank", rank, "begins", flush=True)
"""

Follow = Callable[..., Outcome]


@pytest.fixture(scope="module")
def launcher() -> LauncherInfo:
    return launchers.find(None, environ=os.environ)


@pytest.fixture
def follow(tmp_path: Path, launcher: LauncherInfo) -> Follow:
    """Run a trainer on two ranks; afterwards nothing of it may be alive."""

    def run_trainer(
        body: str,
        *,
        limit_s: float | None = 60.0,
        expected: int | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Progress], None] | None = None,
        launcher: LauncherInfo = launcher,
        stopper: EarlyStopper | None = None,
        **values: int,
    ) -> Outcome:
        script = tmp_path / "train.py"
        script.write_text(TRAINER + body)
        spec = StudySpec(
            name="test",
            command=(sys.executable, str(script), "{out}"),
            launcher=launcher,
            layout=Layout(2),
            machine=machine.this_machine(),
            knobs=KNOBS,
            trial_limit_s=limit_s,
        )
        setting, marker = Setting.of(values), uuid.uuid4().hex
        folder = tmp_path / "trial 1"
        launch = render.launch(
            spec, setting, folder, environ=os.environ, cwd=tmp_path, marker=marker
        )
        try:
            return trial.run(
                launch,
                spec=spec,
                setting=setting,
                expected_iterations=expected,
                on_progress=on_progress,
                cancelled=cancelled,
                stopper=stopper,
            )
        finally:
            assert alive(launch) == []

    return run_trainer


def alive(launch: Launch) -> list[str]:
    """The live processes that carry the trial's marker."""
    wanted = f"{process.MARKER}={launch.env[process.MARKER]}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


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
    outcome = follow(body, expected=2, on_progress=seen.append)
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
    outcome = follow(body, expected=100, stopper=ProjectionStopper(Limit(50.0), Noise(), 100))
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
    outcome = follow(body, expected=5, stopper=ProjectionStopper(Limit(1.1), Noise(), 5))
    assert outcome.ending == Finished(1.0, 5), outcome.ending


def test_the_limit_ends_the_ranks_and_their_workers(follow: Follow) -> None:
    body = """
import signal
report(0.25)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
time.sleep(50)
"""
    outcome = follow(body, limit_s=2.0)
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
