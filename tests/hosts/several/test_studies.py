"""Studies over two hosts: what is measured, and that nothing is left, whatever is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.model import Failed, FailureKind, LaunchRecord
from tuner.store import Store, resolve_url

pytestmark = pytest.mark.system

#: The other hosts are empty sooner after a notice, s; a shared machine gets several times that.
EMPTY_S = 20.0

#: A rank that has a daemon of its own, in a session of its own, and then computes for a while.
PROGRAM = """
import os, sys, time
from mpi4py import MPI
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "1000"])
    os._exit(0)
os.wait()
world, end = MPI.COMM_WORLD, time.monotonic() + float(sys.argv[1])
while world.allreduce(time.monotonic() < end):
    time.sleep(0.02)
print("ranks", world.size, flush=True)
os._exit(0)
"""

#: Options that make three launches: a warm-up, a setting and the baseline.
SHORT = ("--objective", "wall", "--no-confirm", "--trials", "1", "--knob", "omp_threads=1,2")

MPIRUN = "import base64,zlib;exec("  # the agents' begin, beside which mpirun is another


class Tune:
    """``tune`` on the first host, over the other two."""

    def __init__(self, bench: Bench, folder: Path, seconds: float, *options: str) -> None:
        self.bench, self.folder = bench, folder
        (folder / "program.py").write_text(PROGRAM)
        self.words = [
            str(Path(sys.executable).parent / "tune"),
            *SHORT,
            *("--storage", str(folder / "study.db"), "--name", "study", "--hosts", "h2:1,h3:1"),
            *options,
            *("--", sys.executable, str(folder / "program.py"), str(seconds)),
        ]
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        env = {**os.environ, "TUNE_DISTURBED": "count"}
        return self.bench.start("h1", *self.words, env=env)

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it printed."""
        output, errors = self.process.communicate(timeout=120)
        return self.process.returncode, output + errors

    def records(self) -> tuple[LaunchRecord, ...]:
        with Store.open(resolve_url(str(self.folder / "study.db"), {}), create=False) as store:
            return tuple(store.launches("study"))

    def pids(self, host: str, *words: str) -> list[int]:
        """The processes of a host that have all these words."""
        found = self.bench.processes(host).items()
        return [pid for pid, argv in found if all(any(w in a for a in argv) for w in words)]

    def kill(self, host: str, *words: str) -> None:
        for pid in self.pids(host, *words):
            os.kill(pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Both ranks run, and have their daemons."""
        return all(self.pids(host, "sleep", "1000") for host in ("h2", "h3"))

    def are_empty(self) -> bool:
        return not any(self.bench.processes(host) for host in ("h2", "h3"))


def test_a_study_over_two_hosts_measures_and_leaves_nothing(bench: Bench, folder: Path) -> None:
    tune = Tune(bench, folder, 0.3)
    code, printed = tune.end()
    assert code == 0, printed
    eventually(tune.are_empty)
    assert bench.processes("h1") == {}
    records = tune.records()
    assert len(records) == 3
    for record in records:
        assert record.outcome.is_ok, record.outcome.ending
        assert "ranks 2" in Path(record.folder, "output.log").read_text()
