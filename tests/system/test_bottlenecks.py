"""Bottlenecks that are really made, under the real mpirun, are named rightly.

The host of the tests is not quiet: as root the launches take precedence of what else runs there.
If other processes hold a launch back all the same, the planted bottleneck must be named next.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.hosts import machine, process
from tuner.knobs import KNOBS
from tuner.launch import render, trial
from tuner.launch.launchers import discovery
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Finished, Launch, Layout, StudySpec
from tuner.results.explain import Cause, explain

pytestmark = [pytest.mark.system, pytest.mark.slow]

INSIDE = Path(__file__).parents[1] / "bottlenecks" / "inside"

#: CPUs for the whole job under a quota, and the kernel's default period.
QUOTA_CPUS, PERIOD_US = 0.3, 100_000


@contextmanager
def hogs() -> Iterator[tuple[str, ...]]:
    cpus = os.sched_getaffinity(0)
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cpus]
    try:
        yield ()
    finally:
        for hog in started:
            hog.kill()
            hog.wait()


def controller() -> tuple[Path, str] | None:
    """The folder in which groups with a CPU quota can be made, and the version's files."""
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own = v1 / path.strip("/")
        if "cpu" in controllers.split(",") and own.is_dir() and os.access(own, os.W_OK):
            return own, "v1"
    subtree = v2 / "cgroup.subtree_control"
    if subtree.is_file() and "cpu" in subtree.read_text().split() and os.access(v2, os.W_OK):
        return v2, "v2"
    return None


@contextmanager
def precedence(*, quota: bool) -> Iterator[tuple[str, ...]]:
    """A control group that others on the host hardly slow down, with a quota or without.

    What comes before a command puts it there: nothing if no group can be made.
    """
    found = controller()
    if found is None:
        yield ()
        return
    folder = found[0] / f"bottleneck-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    part = int(QUOTA_CPUS * PERIOD_US)
    files = {
        "v1": {"cpu.shares": "200000", "cpu.cfs_quota_us": str(part) if quota else "-1"},
        "v2": {"cpu.weight": "10000", "cpu.max": f"{part if quota else 'max'} {PERIOD_US}"},
    }
    try:
        for name, value in files[found[1]].items():
            (folder / name).write_text(value)
        yield ("sh", "-c", f'echo 0 > "{folder}/cgroup.procs"; exec "$@"', "sh")
    finally:
        folder.rmdir()


def compiled(folder: Path) -> str:
    mpicc = Path(discovery.find(None, environ=os.environ).mpirun).with_name("mpicc")
    command = [str(mpicc), "-O1", "-pthread", "-o", str(folder / "program")]
    try:
        subprocess.run([*command, str(INSIDE / "program.c")], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no compiler for MPI programs")
    return str(folder / "program")


@pytest.mark.parametrize(
    ("cause", "options", "subject"),
    [
        (Cause.OTHERS, "--work-ms 60 --iterations 15", ""),
        (Cause.OWN_THREADS, "--matrix 900 --blas 8 --iterations 20", ""),
        (Cause.LOADER, "--work-ms 10 --workers 1 --load-ms 90 --iterations 30", ""),
        (Cause.WORKERS, "--work-ms 5 --workers 6 --worker-ms 100 --iterations 40", ""),
        (Cause.QUOTA, "--work-ms 40 --iterations 12", ""),
        (Cause.STRAGGLER, "--work-ms 10 --sleepy 1 --sleep-ms 100 --iterations 30", "rank 1"),
        (Cause.STRAGGLER, "30 10 1 0 1 100", "rank 1"),  # in C
    ],
)
def test_a_planted_bottleneck_is_named(
    cause: Cause, options: str, subject: str, tmp_path: Path
) -> None:
    if cause is Cause.QUOTA and controller() is None:
        pytest.skip("no control group with a CPU quota can be made (root?)")
    python = (sys.executable, "-m", "mpi4py", str(INSIDE / "trainer.py"), "--out", "{out}")
    program = python if options.startswith("--") else (compiled(tmp_path), "{out}/log")
    mpirun, host = discovery.find(None, environ=os.environ), machine.this_machine()
    command = (*program, *options.split())
    spec = StudySpec("planted", command, mpirun, Layout(2), host, KNOBS, trial_limit_s=90.0)
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    marker = uuid.uuid4().hex
    launch = render.launch(
        spec, BASELINE, tmp_path / "launch", environ=environ, cwd=tmp_path, marker=marker
    )
    with hogs() if cause is Cause.OTHERS else precedence(quota=cause is Cause.QUOTA) as words:

        def behind_them(launch: Launch) -> process.SupervisedCommand:
            return process.start(replace(launch, argv=(*words, *launch.argv)))

        outcome = trial.run(MeasurementRequest(launch, spec, BASELINE), start=behind_them)
    assert isinstance(outcome.ending, Finished), outcome.ending
    explanation = explain(outcome, BASELINE, spec, host)
    suspects = [explanation.suspect, *explanation.others]
    if cause is not Cause.OTHERS:  # which no test has planted
        suspects = [each for each in suspects if each.cause is not Cause.OTHERS] or suspects
    assert suspects[0].cause is cause and subject in suspects[0].subject, explanation
