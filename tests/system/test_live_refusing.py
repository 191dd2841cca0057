"""A study of a program that offers a knob which it cannot change while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.light_trainer import tune
from tuner.live.eligibility import MOST_REFUSED
from tuner.model import Failed, FailureKind
from tuner.store.store import Store

pytestmark = pytest.mark.system

#: Its log tells of each thirtieth iteration: so a job has said that it takes orders before anything
#: can be said against its setting.
TRAINER = """
import json, os, sys, time
from mpi4py import MPI
from tuner import live
def refuse(value):
    raise RuntimeError("chunks stay as they are")
session = live.session()
session.on("chunk", refuse)
begun, entries, world = time.monotonic(), [], MPI.COMM_WORLD
while len(entries) < 30 or session.more():
    time.sleep(0.01)
    world.Barrier()
    entries.append({"iteration": len(entries) + 1, "elapsed_time": time.monotonic() - begun})
    if world.rank == 0 and len(entries) % 30 == 0:
        with open(sys.argv[1] + "/draft", "w") as file:
            json.dump(entries, file)
        os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
    session.step()
"""
STUDY = """
name = "refusing"
command = "{python} train.py {out}"
mpi_procs = 2
trials = 4
min_gain = "20%"
confirm = false
[knobs.chunk]
values = [16, 64, 256, 1024]
env = "CHUNK"
"""


def test_after_some_settings_that_it_refused_live_measurement_is_switched_off(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "tune.toml").write_text(STUDY)
    done = tune(tmp_path, "--live", "on", TUNE_STORAGE=str(tmp_path / "tune.db"))
    assert done.returncode == 0, done.stderr
    said = "live measurement was switched off"
    assert sum(line.startswith("[") and said in line for line in done.stderr.splitlines()) == 1
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        made = store.launches("refusing-n2")
    failed = [record for record in made if isinstance(record.outcome.ending, Failed)]
    kinds = [r.outcome.ending.kind for r in made if isinstance(r.outcome.ending, Failed)]
    assert kinds == [FailureKind.SWITCH] * MOST_REFUSED
    assert len({record.setting for record in failed}) == MOST_REFUSED
    windows = [record.number for record in made if record.outcome.window and record not in failed]
    assert windows and not any(made[number - 1].outcome.exclusion for number in windows)
    assert max(windows) < failed[-1].number < made[-1].number, "then each value is launched"
