"""Programs that write no log, under a real mpirun: the stencil, and by wall time."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.light_trainer import tune
from tests.system.jobs import Done, run_program

pytestmark = pytest.mark.system

PROGRAM = Path(__file__).parents[2] / "workloads" / "mpi_stencil.py"
SMALL = ("--rows", "7", "--columns", "5", "--steps", "3")


def run(folder: Path, ranks: int, *flags: str) -> Done:
    return run_program(folder, PROGRAM, *flags, ranks=ranks, OPENBLAS_NUM_THREADS="1")


def test_three_ranks_find_what_one_finds_and_say_how_long_it_took(tmp_path: Path) -> None:
    sums = []
    for ranks in (1, 3):
        done = run(tmp_path, ranks, *SMALL)
        assert done.clean, done.stderr
        assert re.search(r"^time per step: [\d.]+ ms$", done.stdout, re.MULTILINE)
        assert f"run: 3 steps, {ranks} rank" in done.stdout
        sums += re.findall(r"^checksum: (\S+), largest error \S+$", done.stdout, re.MULTILINE)
    assert sums == ["3.500000000e+01"] * 2


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
