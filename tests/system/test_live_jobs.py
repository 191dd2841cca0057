"""Settings that are measured in a real running job. Faults: `test_campaigns.py`."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.light_trainer import tune
from tests.marked import marked
from tests.system.jobs import alive, finished, rendered, spec_of
from tuner.live.jobs import LiveJobs
from tuner.live.measurement import MeasurementRequest
from tuner.live.scale import FullRunModel
from tuner.model import Env, Flag, IntRange, Knob, Launch, Outcome, Progress, Setting, Verdict

pytestmark = pytest.mark.system

N = 30

#: An iteration takes so many milliseconds.
TRAINER = f"""
import numpy as np
from mpi4py import MPI
world, now = MPI.COMM_WORLD, {{"pause": int(sys.argv[2])}}
agent = sys.modules["tune_rank_live"].agent()
agent.offer("pause", lambda value: now.update(pause=value), lambda: now["pause"])
matrix, begun, elapsed = np.ones((50, 50)), time.monotonic(), []
while len(elapsed) < {N} or agent.more():
    agent.step()
    matrix @ matrix
    time.sleep(now["pause"] / 1000)
    world.Barrier()
    elapsed.append(time.monotonic() - begun)
    if rank == 0:
        report(*elapsed)
"""
KNOBS = (
    Knob("pause", IntRange(1, 1000), Flag(), live=True),
    Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))),
)


def test_settings_are_measured_in_one_job(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"precision": 0.2, "stall_limit_s": 3.0, "trial_limit_s": 60.0}
    spec = spec_of(tmp_path, TRAINER, "{pause}", knobs=KNOBS, **limits)
    jobs, launches, progress = LiveJobs(), list[Launch](), list[Progress]()

    def measured(**values: int) -> Outcome:
        number, setting = len(launches) + 1, Setting.of(values)
        launches.append(rendered(spec, setting, tmp_path / f"trial-{number}"))
        progress.clear()
        request = MeasurementRequest(
            number, launches[-1], spec, setting, on_progress=progress.append
        )
        return jobs.window(request, FullRunModel(N, 2.0))

    try:
        slow = measured(pause=40, omp_threads=1)
        quick = measured(pause=10, omp_threads=2)
        assert jobs._job is not None and jobs._job.can >= {"omp_threads", "pause"}
    finally:
        jobs.end()
    assert [alive(launch) for launch in launches] == [[], []]
    slow_window, quick_window = slow.window, quick.window
    assert slow_window is not None and quick_window is not None
    assert (slow_window.job, quick_window.job) == (1, 1)
    assert finished(slow).iterations == finished(quick).iterations == N
    assert finished(slow).elapsed_s > 1.5 * finished(quick).elapsed_s
    assert finished(quick).elapsed_s == pytest.approx(quick_window.pace_s * (N + 2))
    assert slow.wall_s > slow_window.started_s > 0 == quick_window.started_s
    assert quick_window.iterations >= 5 and quick_window.discarded >= 1
    assert quick_window.at_s > slow_window.at_s
    effects = {effect.knob: effect for effect in quick.effects}
    assert effects["pause"].verdict is Verdict.HONOURED
    assert effects["omp_threads"].observed == min(2, len(os.sched_getaffinity(0)))
    assert quick.telemetry is not None and quick.load is not None
    assert progress[-1].iteration == quick_window.iterations


#: Not confirmed: that is launches, as without windows.
STUDY = (
    *("--study", "chainer_mnist", "-n", "2", "--trials", "2", "--fix", "iterator_workers=1"),
    *("--min-gain", "20%", "--no-confirm", "--live", "on", "--json"),
)


@pytest.mark.skipif(find_spec("chainer") is None, reason="needs the extra `chainer`")
def test_one_job_measures_the_settings_of_a_search(tmp_path: Path) -> None:
    done = tune(tmp_path, *STUDY, TUNE_STORAGE=str(tmp_path / "tune.db"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["windows"] > found["jobs"], "a job has measured several settings"
    assert found["launches"] - found["windows"] == 1, "the warm-up"
    assert found["best"]["windows"] == len(found["best"]["samples"]) > 0
    assert "(job 1)" in done.stderr, "the warm-up went on"
    assert marked(str(tmp_path), "TUNE_LOCK_DIR") == []
