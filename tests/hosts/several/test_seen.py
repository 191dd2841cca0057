"""What is seen of launches on other hosts."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.model import Failed, FailureKind, Finished
from tuner.store import Store, resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Ranks that compute, exchange and log; with "hang" the last one stops doing so after a while.
PROGRAM = """
import json, os, sys, time
import numpy as np
from mpi4py import MPI
world, out, ways = MPI.COMM_WORLD, sys.argv[1], sys.argv[2:]
rows, began_s = [], time.monotonic()
matrix = np.ones((300, 300))
for iteration in range(1, 41):
    if "hang" in ways and iteration == 10 and world.rank == world.size - 1:
        time.sleep(1000)
    end_s = time.monotonic() + 0.05
    while time.monotonic() < end_s:
        matrix @ matrix
    world.allreduce(1)
    rows.append({"iteration": iteration, "elapsed_time": time.monotonic() - began_s})
    if world.rank == 0:
        with open(f"{out}/log.new", "w") as file:
            json.dump(rows, file)
        os.replace(f"{out}/log.new", f"{out}/log")
"""


def tune(
    bench: Bench, folder: Path, storage: str, *ways: str, options: tuple[str, ...] = ()
) -> Any:
    """Start a short study on h1, with ranks there and on h3."""
    (folder / "program.py").write_text(PROGRAM)
    words = (
        str(Path(sys.executable).parent / "tune"),
        *("--storage", storage, "--name", "study", "--hosts", "h1:1,h3:1"),
        *("--no-confirm", "--trials", "1", "--knob", "omp_threads=1,2", *options),
        *("--", sys.executable, str(folder / "program.py"), "{out}", *ways),
    )
    return bench.start("h1", *words, env={**os.environ})


def private_folders(bench: Bench) -> list[str]:
    found = [bench.run(name, "ls", "/dev/shm").stdout.split() for name in bench.names]
    return [each for names in found for each in names if each.startswith("tune-")]


def test_ranks_of_all_hosts_are_seen_from_outside_and_from_inside(
    bench: Bench, folder: Path
) -> None:
    process = tune(bench, folder, str(folder / "study.db"))
    printed = "".join(process.communicate(timeout=120))
    assert process.returncode == 0, printed
    with Store.open(resolve_url(str(folder / "study.db"), {}), create=False) as store:
        records = store.launches("study")
        telemetries = [store.telemetry("study", record.number) for record in records]
    assert len(records) == 3
    for record, telemetry in zip(records, telemetries, strict=True):
        outcome = record.outcome
        assert isinstance(outcome.ending, Finished), outcome.ending
        ranks = outcome.observation.ranks
        assert [rank.rank for rank in ranks] == [0, 1]
        assert all(rank.world_size == 2 and rank.threads and rank.pools for rank in ranks)
        assert telemetry is not None
        tracks = {(track.host, track.rank) for track in telemetry.tracks}
        assert tracks == {("h1", None), ("h3", None), ("h1", 0), ("h3", 1)}
        assert {phase.rank for phase in telemetry.phases} == {0, 1}
    assert private_folders(bench) == []


def test_the_log_is_brought_from_the_host_of_rank_0(bench: Bench, folder: Path) -> None:
    process = tune(bench, folder, "/tmp/seen.db", options=("--hosts", "h3:1,h2:1"))
    printed = "".join(process.communicate(timeout=120))
    assert process.returncode == 0, printed
    outs = {
        name: bench.run(name, "find", "/tmp/study", "-name", "out", check=False).stdout
        for name in bench.names
    }
    assert outs["h1"]
    assert outs["h2"] == outs["h3"] == "", "what was made there for the program is gone"


def test_a_rank_that_hangs_is_named_with_its_host(bench: Bench, folder: Path) -> None:
    storage = str(folder / "study.db")
    process = tune(bench, folder, storage, "hang", options=("--stall-limit", "3"))
    process.communicate(timeout=120)
    with Store.open(resolve_url(storage, {}), create=False) as store:
        first = store.launches("study")[0]
    assert isinstance(first.outcome.ending, Failed)
    assert first.outcome.ending.kind is FailureKind.STALLED
    assert "rank 1 (on h3) is idle, the others wait" in first.outcome.ending.reason
    stacks = sorted(path.name for path in Path(first.folder, "stacks").iterdir())
    assert stacks == ["rank-0.txt", "rank-1.txt"]


def test_a_killed_study_leaves_no_private_folder(bench: Bench, folder: Path) -> None:
    process = tune(bench, folder, str(folder / "study.db"), "hang")
    eventually(lambda: len(private_folders(bench)) == 2)
    found = bench.processes("h1").items()
    pids = [pid for pid, argv in found if "--hosts" in argv and re.search("python", argv[0])]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    eventually(lambda: not any(bench.processes(name) for name in bench.names))
    again = tune(bench, folder, str(folder / "other.db"))
    printed = "".join(again.communicate(timeout=120))
    assert again.returncode == 0, printed
    assert private_folders(bench) == []
