"""Real MPIs: what their ranks get, and that nothing of them is left.

Runs with the mpirun of this environment, and with each that ``TUNE_TEST_MPIRUNS`` names
(paths, separated by colons), whose ranks then run this environment's Python and mpi4py.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.marked import marked
from tuner.hosts import process
from tuner.launch import launchers
from tuner.model import Launch, LauncherInfo

pytestmark = pytest.mark.system

PATIENCE_S = 60.0
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
    "affinity": len(os.sched_getaffinity(0)),
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
    return launchers.find(request.param, environ=os.environ)


def launch(
    info: LauncherInfo,
    folder: Path,
    code: str = RANK,
    *,
    stay: bool = False,
    bind_to: str = "none",
    assignments: tuple[str, ...] = (),
) -> Launch:
    program = [*launchers.wrapper_argv(), *assignments, "--", sys.executable, "-m", "mpi4py"]
    program += ["-c", code, str(folder), *(["stay"] if stay else [])]
    launcher = launchers.launcher_for(info.kind)
    argv = launcher.argv(info, RANKS, {"bind_to": bind_to}, program)
    env = {**os.environ, **launcher.environment(info), "FROM_OUTSIDE": "a b\nc"}
    return Launch(argv, env, folder, folder, folder)


def views(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


def eventually(done: Callable[[], bool], running: process.Running | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert running is None or running.poll() is None, "the trial has ended"
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def started(info: LauncherInfo, folder: Path, code: str = RANK) -> process.RunningTrial:
    """A trial whose ranks have all come up, and stay."""
    running = process.start(launch(info, folder, code, stay=True))
    try:
        eventually(lambda: len(views(folder)) == RANKS, running)
    except BaseException:
        running.stop()
        raise
    return running


def test_the_ranks_get_what_they_should(info: LauncherInfo, tmp_path: Path) -> None:
    running = process.start(launch(info, tmp_path, assignments=("KNOB=x $(id) 'y'\n", "EMPTY=")))
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    assert ended.code == 0, (tmp_path / process.OUTPUT).read_text()
    assert not ended.stopped
    assert len(views(tmp_path)) == RANKS
    for view in views(tmp_path):
        assert (view["size"], view["sum"]) == (RANKS, RANKS * (RANKS - 1) // 2)
        assert view["affinity"] == len(os.sched_getaffinity(0))
        seen = view["environment"]
        assert seen["KNOB"] == "x $(id) 'y'\n"
        assert seen["EMPTY"] == ""
        assert seen["FROM_OUTSIDE"] == "a b\nc"
        assert seen[process.MARKER] == running.marker

    assert info.libmpi is not None
    loaded = {library for view in views(tmp_path) for library in view["libraries"]}
    assert {Path(library).resolve() for library in loaded} == {Path(info.libmpi).resolve()}


@pytest.mark.parametrize("bind_to", ["core", "socket", "numa"])
def test_every_binding_is_understood(info: LauncherInfo, tmp_path: Path, bind_to: str) -> None:
    running = process.start(launch(info, tmp_path, bind_to=bind_to))
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    assert ended.code == 0, (tmp_path / process.OUTPUT).read_text()
    assert {view["size"] for view in views(tmp_path)} == {RANKS}


def test_every_process_of_the_trial_is_seen_and_carries_the_marker(
    info: LauncherInfo, tmp_path: Path
) -> None:
    running = started(info, tmp_path)
    try:
        pids = set(running.pids())
        assert pids == set(marked(running.marker))
        assert {running.pid, *(view["pid"] for view in views(tmp_path))} <= pids
    finally:
        running.stop()
