"""A program that writes no log, under real mpirun: by what it prints, and by its wall time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.light_trainer import tune

pytestmark = pytest.mark.system

#: Rank 0 prints its speed between other lines, on stderr and after a carriage return.
PROGRAM = """#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 0 ] || exit 0
sleep "0.$((2 * ${OMP_NUM_THREADS:-4}))"
printf 'Performance: 1 ns/day\\n 10 %%\\r100 %%\\rPerformance: %s.5 ns/day\\nbye\\n' \
  $((80 / ${OMP_NUM_THREADS:-4})) >&2
"""

QUICK = ("-n", "2", "--knob", "omp_threads=1,2", "--warm-ups", "0", "--trials", "2",
         "--no-confirm", "--json")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.sh").write_text(PROGRAM)
    return tmp_path


def test_the_shortest_wall_time(folder: Path) -> None:
    done = tune(
        folder, *QUICK, "--objective", "wall", "--samples-per-run", "8", "--", "sh", "program.sh"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    best = found["best"]
    assert best["elapsed_s"] >= 0.2 and best["items_per_s"] == 8 / best["elapsed_s"]
