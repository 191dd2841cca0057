"""The bench itself: real hosts as far as an mpirun can tell."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually

pytestmark = pytest.mark.system


def test_mpirun_starts_ranks_on_two_hosts_over_ssh(bench: Bench) -> None:
    mpirun = Path(sys.executable).parent / "mpirun"
    words = ["--allow-run-as-root", "--bind-to", "none", "--host", "h2:2,h3:1", "-n", "3"]
    # Open MPI 5 sometimes waits for ever for the end of ranks that end at once.
    done = bench.run("h1", str(mpirun), *words, "sh", "-c", "hostname; sleep 0.5")
    assert Counter(done.stdout.split()) == {"h2": 2, "h3": 1}
    eventually(lambda: bench.processes("h2") == {})


def test_each_host_has_its_own_temporary_files_and_the_folder_of_the_bench(bench: Bench) -> None:
    bench.run("h1", "touch", "/tmp/own", "/dev/shm/own", str(bench.folder / "shared"))
    seen = bench.run("h2", "ls", "/tmp", "/dev/shm", str(bench.folder)).stdout.split()
    assert "own" not in seen
    assert "shared" in seen
