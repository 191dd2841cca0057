"""The stencil, a program that writes no log, under a real mpirun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.system.jobs import run_program

pytestmark = pytest.mark.system

PROGRAM = Path(__file__).parents[2] / "workloads" / "mpi_stencil.py"
SMALL = ("--rows", "7", "--columns", "5", "--steps", "3")


def test_three_ranks_find_what_one_finds_and_say_how_long_it_took(tmp_path: Path) -> None:
    sums = []
    for ranks in (1, 3):
        done = run_program(tmp_path, PROGRAM, *SMALL, ranks=ranks, OPENBLAS_NUM_THREADS="1")
        assert done.clean, done.stderr
        assert re.search(r"^time per step: [\d.]+ ms$", done.stdout, re.MULTILINE)
        assert f"run: 3 steps, {ranks} rank" in done.stdout
        sums += re.findall(r"^checksum: (\S+), largest error \S+$", done.stdout, re.MULTILINE)
    assert sums == ["3.500000000e+01"] * 2
