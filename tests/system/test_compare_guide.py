"""The commands of the guide to comparisons, on a program that becomes slower."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides import TRAIN, shell_blocks

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_branch_that_is_slower_fails(tmp_path: Path) -> None:
    before, after = shell_blocks("docs/how-to/compare.md")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TUNE_DISTURBED": "count"}
    short = "--mpi-procs 1 --trials 1 --knob omp_threads=1,2 --"
    (tmp_path / "train.py").write_text(TRAIN)

    def run(commands: str, length: int) -> subprocess.CompletedProcess[str]:
        (tmp_path / "length").write_text(str(length))
        script = "set -e\n" + commands.replace("-- python", f"{short} python")
        return subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    done = run(before, 3)
    assert done.returncode == 0, done.stderr
    slower = run(after, 6)
    assert slower.returncode == 6, slower.stdout + slower.stderr
    assert "worse: it takes 2 (" in slower.stdout
    assert slower.stdout.rstrip().endswith("; worse by more than 5 %")
