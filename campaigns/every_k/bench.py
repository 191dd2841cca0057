"""Drives the server: a folder for each case, and the study's command in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from campaigns.every_k.server import Reply, Request

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n"

#: Five trials, a warm-up and the defaults.
STUDY = """\
name = "surface"
command = ["true", "--out", "{out}", "-t", "{omp_threads}", "-j", "{iterator_workers}"]
mpi_procs = 2

[knobs.omp_threads]
range = "1..4"
default = 4

[knobs.iterator_workers]
range = "1..3"
default = 3
"""

ARGUMENTS = (
    *("--study", "../../study.toml", "--trials", "5", "--no-confirm", "--min-gain", "0.1%"),
    *("--live", "off"),
    *("--storage", "tune.db", "--mpirun", "../../mpirun"),
)


def compiler() -> str | None:
    """The C compiler of this machine."""
    return shutil.which("gcc") or shutil.which("cc")


class Bench:
    """A server and the folders of its cases, in memory where that is possible."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self.folder = server, folder

    def run(
        self, case: Path, kind: str = "", at: int = 0, error: int = 0, *, lasts: bool = False
    ) -> Reply:
        """Run the study's command in the folder of a case."""
        case.mkdir(exist_ok=True)
        request = Request(str(case), ARGUMENTS, kind, at, error, lasts)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(request)) + "\n")
        self._server.stdin.flush()
        return Reply(**json.loads(self._server.stdout.readline()))


@contextmanager
def started(folder: Path) -> Iterator[Bench]:
    """A server that works below ``folder``."""
    found = compiler()
    assert found is not None, "there is no C compiler"
    shim = folder / "shim.so"
    subprocess.run(
        [found, "-O1", "-shared", "-fPIC", "-o", shim, HERE / "shim.c", "-ldl"], check=True
    )
    mpirun = folder / "mpirun"
    mpirun.write_text(MPIRUN)
    mpirun.chmod(0o755)
    (folder / "study.toml").write_text(STUDY)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TUNE_", "OMP_"))},
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",  # a fork has one thread
        "COLUMNS": "100",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "campaigns.every_k.server"],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        bench = Bench(server, folder)
        bench.run(folder / "warm-up")
        yield bench
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
