"""A study whose settings are measured in a running job.

Faults of such jobs are in `test_campaigns.py`, the shipped trainers in `test_rank_live.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.light_trainer import tune
from tests.marked import marked

pytestmark = pytest.mark.system

#: A loop of 30 iterations that goes on while the study wants more of it.
PROGRAM = """
import json, os, sys, time
import numpy
from mpi4py import MPI
from tuner import live
world, session, log = MPI.COMM_WORLD, live.session(), []
begun_s = time.monotonic()
while len(log) < 30 or session.more():
    time.sleep(0.02)
    world.Barrier()
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    if world.rank == 0:
        with open(sys.argv[1] + "/draft", "w") as file:
            json.dump(log[:30], file)
        os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
    session.step()
"""

#: Not confirmed: that is launches, as without windows.
STUDY = (
    *("-n", "2", "--trials", "2", "--knob", "omp_threads=1,2", "--mpirun-arg", "--bind-to none"),
    *("--min-gain", "20%", "--no-confirm", "--live", "on", "--json"),
)


def test_one_job_measures_the_settings_of_a_search(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = ("--", sys.executable, "-m", "mpi4py", "train.py", "{out}")
    done = tune(tmp_path, *STUDY, *command, TUNE_STORAGE=str(tmp_path / "tune.db"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["windows"] > result["jobs"], "a job has measured several settings"
    assert result["launches"] - result["windows"] == 2, "the warm-up and the baseline"
    assert result["best"]["samples"]
    assert "(job 2)" in done.stderr, "the first launch after the warm-up went on"
    assert marked(str(tmp_path), "TUNE_LOCK_DIR") == []
