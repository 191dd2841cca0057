"""Real MPIs: what their ranks get, and that nothing of them is left.

Runs with the mpirun of this environment, and with each that ``TUNE_TEST_MPIRUNS`` names
(paths, separated by colons), whose ranks then run this environment's Python and mpi4py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.marked import PATIENCE_S, eventually, marked
from tests.system.jobs import launch_of
from tuner.hosts import machine, process
from tuner.launch.launchers import discovery
from tuner.model import LauncherInfo, Value

pytestmark = pytest.mark.system

RANKS = 3

MPIRUNS = [None, *filter(None, os.environ.get("TUNE_TEST_MPIRUNS", "").split(os.pathsep))]

#: Each rank writes what it sees, into a file of its own, and may then stay.
RANK = """
import json, os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
with open("/proc/self/maps") as maps:
    libraries = {line.rstrip().split(None, 5)[-1] for line in maps if "/libmpi" in line}
seen = {
    "size": world.size,
    "sum": world.allreduce(world.rank),
    "libraries": sorted(libraries),
    "affinity": sorted(os.sched_getaffinity(0)),
    "environment": dict(os.environ),
    "pid": os.getpid(),
}
name = os.path.join(sys.argv[1], f"rank-{world.rank}.json")
with open(name + ".new", "w") as file:
    json.dump(seen, file)
os.rename(name + ".new", name)
if len(sys.argv) > 2:
    time.sleep(600)
"""


@pytest.fixture(scope="module", params=MPIRUNS, ids=lambda path: path or "own")
def info(request: pytest.FixtureRequest) -> LauncherInfo:
    pytest.importorskip("mpi4py")
    return discovery.find(request.param, environ=os.environ)


def start(
    info: LauncherInfo,
    folder: Path,
    *words: str,
    ranks: int = RANKS,
    options: dict[str, Value] | None = None,
    **assigned: str,
) -> process.SupervisedCommand:
    """Start the ranks; with a word they stay."""
    program = ["-c", RANK, str(folder), *words]
    env = {"FROM_OUTSIDE": "a b\nc"}
    launch = launch_of(
        folder, program, ranks=ranks, info=info, options=options, assigned=assigned, env=env
    )
    return process.start(launch)


def views(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


def ended_well(
    running: process.SupervisedCommand, folder: Path, ranks: int = RANKS
) -> list[dict[str, Any]]:
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    assert (ended.code, ended.stopped) == (0, False), (folder / process.OUTPUT).read_text()
    assert [view["size"] for view in views(folder)] == [ranks] * ranks
    return views(folder)


def test_the_ranks_get_what_they_should(info: LauncherInfo, tmp_path: Path) -> None:
    running = start(info, tmp_path, KNOB="x $(id) 'y'\n", EMPTY="")
    seen = ended_well(running, tmp_path)
    for view in seen:
        assert view["sum"] == RANKS * (RANKS - 1) // 2
        assert view["affinity"] == sorted(os.sched_getaffinity(0))
        expected = {
            "KNOB": "x $(id) 'y'\n",
            "EMPTY": "",
            "FROM_OUTSIDE": "a b\nc",
            process.MARKER: running.marker,
        }
        assert view["environment"].items() >= expected.items()
    assert info.libmpi is not None
    loaded = {library for view in seen for library in view["libraries"]}
    assert {Path(library).resolve() for library in loaded} == {Path(info.libmpi).resolve()}


@pytest.mark.slow
@pytest.mark.parametrize("bind_to", ["core", "numa"])
def test_every_binding_is_understood(info: LauncherInfo, tmp_path: Path, bind_to: str) -> None:
    ended_well(start(info, tmp_path, options={"bind_to": bind_to}), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "cores"), [(2, 1), (1, 2)])
def test_each_rank_has_cores_of_its_own(
    info: LauncherInfo, tmp_path: Path, ranks: int, cores: int
) -> None:
    host = machine.this_machine()
    if host.usable_cores < ranks * cores:
        pytest.skip(f"needs {ranks * cores} cores")
    running = start(info, tmp_path, ranks=ranks, options={"cores_per_rank": cores})
    cpus = [cpu for view in ended_well(running, tmp_path, ranks) for cpu in view["affinity"]]
    cpus_per_core = host.logical_cpus // host.physical_cores
    assert len(cpus) == len(set(cpus)) == ranks * cores * cpus_per_core


def test_every_process_of_the_trial_is_found_and_carries_the_marker(
    info: LauncherInfo, tmp_path: Path
) -> None:
    running = start(info, tmp_path, "stay")
    try:
        eventually(lambda: len(views(tmp_path)) == RANKS)
        pids = set(running.pids())
        assert pids == set(marked(running.marker))
        assert {running.pid, *(view["pid"] for view in views(tmp_path))} <= pids
    finally:
        running.stop()
