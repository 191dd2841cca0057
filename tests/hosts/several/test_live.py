"""A job over two hosts whose settings are changed while it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.model import Finished, Stopped
from tuner.store import Store, resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Rank 0 writes Chainer's log; an iteration takes as long as the step says, on both ranks.
PROGRAM = """
import json, os, sys, time
from mpi4py import MPI
from tuner import live
world, session, out = MPI.COMM_WORLD, live.session(), sys.argv[1]
state = {"step": int(sys.argv[2])}
def change(step):
    state["step"] = step
    print("rank", world.rank, "changes after", len(log), flush=True)
session.on("step", change, read=lambda: state["step"])
log, begun_s = [], time.monotonic()
while len(log) < 25 or session.more():
    time.sleep(0.02 * state["step"])
    steps = world.allgather(state["step"])
    assert len(set(steps)) == 1, steps
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    if world.rank == 0:
        with open(out + "/draft", "w") as file:
            json.dump(log, file)
        os.replace(out + "/draft", out + "/log")
    session.step()
"""


def test_a_job_over_two_hosts_is_switched_on_both_at_once(bench: Bench, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    words = [
        str(Path(sys.executable).parent / "tune"),
        *("--live", "on", "--no-confirm", "--trials", "3", "--fix", "omp_threads=1"),
        *("--knob", "step=1,2,3", "--baseline", "step=3"),
        *("--storage", str(folder / "study.db"), "--name", "study", "--hosts", "h2:1,h3:1"),
        *("--", sys.executable, str(folder / "program.py"), "{out}", "{step}"),
    ]
    env = {**os.environ, "TUNE_DISTURBED": "count"}
    done = bench.run("h1", *words, env=env, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    with Store.open(resolve_url(str(folder / "study.db"), {}), create=False) as store:
        records = store.launches("study")
    windows = [each for each in records if each.outcome.window is not None]
    said = done.stdout + done.stderr
    assert len(windows) > len({each.job for each in windows}) > 0, said
    for record in windows:
        assert isinstance(record.outcome.ending, Finished | Stopped), record.outcome.ending
        assert record.outcome.window is not None
        assert record.outcome.window.pace_s >= 0.02 * int(record.setting.as_dict()["step"])
        ranks = record.outcome.observation.ranks
        assert [rank.rank for rank in ranks] == [0, 1]
    eventually(lambda: not any(bench.processes(host) for host in bench.names))
