"""A job over hosts that share no study folder, whose settings are changed while it runs."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.marked import eventually
from tuner.model import Failed, FailureKind, Finished, LaunchRecord, Stopped
from tuner.model.errors import UsageError
from tuner.store import Store, resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Rank 0 writes Chainer's log; an iteration takes as long as the step says, on both ranks.
PROGRAM = """
import json, os, sys, time
from mpi4py import MPI
from tuner import live
world, session, out = MPI.COMM_WORLD, live.session(), sys.argv[1]
state = {"step": int(sys.argv[2])}
session.on("step", lambda step: state.update(step=step), read=lambda: state["step"])
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


class Study:
    """``tune`` on the first host; its ranks are on the others."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        self.storage = str(folder / "study.db")
        words = [
            str(Path(sys.executable).parent / "tune"),
            *("--live", "on", "--no-confirm", "--trials", "3", "--fix", "omp_threads=1"),
            *("--knob", "step=1,2,3", "--baseline", "step=3", "--hosts", "h2:1,h3:1"),
            *("--storage", self.storage, "--name", "study", "--run-dir", f"/tmp/{folder.name}"),
            *("--", sys.executable, str(folder / "program.py"), "{out}", "{step}"),
        ]
        env = {**os.environ}
        self._process = bench.start("h1", *words, env=env)

    def records(self) -> tuple[LaunchRecord, ...]:
        """Those of the study so far."""
        with (
            suppress(UsageError),  # there is no study yet
            Store.open(resolve_url(self.storage, {}), create=False) as store,
        ):
            return tuple(store.launches("study"))
        return ()

    def end(self) -> tuple[list[LaunchRecord], str]:
        """The windows, and what it printed."""
        printed = "".join(self._process.communicate(timeout=200))
        assert self._process.returncode == 0, printed
        return [each for each in self.records() if each.job is not None], printed


def test_it_is_switched_on_all_hosts_at_once(bench: Bench, folder: Path) -> None:
    windows, printed = Study(bench, folder).end()
    assert len(windows) > len({each.job for each in windows}) > 0, printed
    for record in windows:
        assert isinstance(record.outcome.ending, Finished | Stopped), record.outcome.ending
        assert record.outcome.window is not None
        assert record.outcome.window.pace_s >= 0.02 * int(record.setting.as_dict()["step"])
        assert [rank.rank for rank in record.outcome.observation.ranks] == [0, 1]
    eventually(lambda: not any(bench.processes(host) for host in bench.names))


def test_a_host_that_is_lost_meanwhile_ends_the_job_and_the_study_goes_on(
    bench: Bench, folder: Path
) -> None:
    study = Study(bench, folder)
    eventually(lambda: any(record.job is not None for record in study.records()))
    agents = [pid for pid, argv in bench.processes("h3").items() if "-c" in argv]
    assert agents
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    windows, printed = study.end()
    failed = [each.outcome.ending for each in study.records()]
    lost = [each.kind for each in failed if isinstance(each, Failed)]
    assert set(lost) <= {FailureKind.LOST_HOST}, printed
    assert len({each.job for each in windows}) > 1, printed
