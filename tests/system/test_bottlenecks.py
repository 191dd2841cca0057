"""Bottlenecks that are really made, under the real mpirun, are named rightly.

The host of the tests is not quiet: as root the ranks take precedence of what else runs there.
If other processes hold a launch back all the same, the planted bottleneck must be named next.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.system.jobs import finished, run
from tuner.hosts import machine
from tuner.knobs import KNOBS
from tuner.launch.launchers import discovery
from tuner.model import BASELINE, Layout, StudySpec
from tuner.results.explain import Cause, explain

pytestmark = [pytest.mark.system, pytest.mark.slow]

INSIDE = Path(__file__).parents[1] / "bottlenecks" / "inside"

#: What comes before a program: it has one thread, and precedence if it may (else that is said).
ONE_THREAD = ("env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
FIRST = ("nice", "-n", "-10")


@contextmanager
def hogs() -> Iterator[None]:
    cpus = os.sched_getaffinity(0)
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cpus]
    try:
        yield
    finally:
        for hog in started:
            hog.kill()
            hog.wait()


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
        (Cause.STRAGGLER, "--work-ms 10 --sleepy 1 --sleep-ms 100 --iterations 30", "rank 1"),
        (Cause.STRAGGLER, "30 10 1 0 1 100", "rank 1"),  # in C
    ],
)
def test_a_planted_bottleneck_is_named(
    cause: Cause, options: str, subject: str, tmp_path: Path
) -> None:
    is_by_others = cause is Cause.OTHERS
    python = (sys.executable, "-m", "mpi4py", str(INSIDE / "trainer.py"), "--out", "{out}")
    program = python if options.startswith("--") else (compiled(tmp_path), "{out}/log")
    command = (*ONE_THREAD, *(() if is_by_others else FIRST), *program, *options.split())
    mpirun, host = discovery.find(None, environ=os.environ), machine.this_machine()
    spec = StudySpec("planted", command, mpirun, Layout(2), host, KNOBS, trial_limit_s=90.0)
    with hogs() if is_by_others else nullcontext():
        outcome = run(spec, BASELINE, tmp_path / "launch")
    finished(outcome)
    explanation = explain(outcome, BASELINE, spec, host)
    suspects = [explanation.suspect, *explanation.others]
    if not is_by_others:  # which no test has planted
        suspects = [each for each in suspects if each.cause is not Cause.OTHERS] or suspects
    assert suspects[0].cause is cause and subject in suspects[0].subject, explanation
