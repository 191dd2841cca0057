"""Windows of a real job: two ranks, whose loop accepts switches. Faults: `test_faults.py`."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.test_trial_mpirun import alive
from tuner.hosts import machine
from tuner.launch import launchers, render, trial
from tuner.live.jobs import LiveJobs
from tuner.live.measurement import MeasurementRequest
from tuner.live.scale import FixedOverhead, FullRunModel
from tuner.model import (
    Env,
    Finished,
    Flag,
    IntRange,
    Knob,
    Launch,
    Layout,
    Outcome,
    Progress,
    Setting,
    StudySpec,
    Verdict,
)
from tuner.search.stopper import EarlyStopper

pytestmark = pytest.mark.system

#: An iteration takes so many milliseconds; with ``ends`` there are no more.
TRAINER = """
import json, os, sys, time
import numpy as np
from mpi4py import MPI
world, now = MPI.COMM_WORLD, {"pause": int(sys.argv[2]), "ends": 0}
live = sys.modules.get("tune_rank_live")
agent = live.agent() if live else None
if agent is not None:
    agent.offer("pause", lambda value: now.update(pause=value), lambda: now["pause"])
    agent.offer("ends", lambda value: now.update(ends=value), lambda: now["ends"])
matrix, begun, entries, iteration = np.ones((50, 50)), time.monotonic(), [], 0
while iteration < N or (agent is not None and agent.more()):
    if agent is not None:
        agent.step()
    if now["ends"]:
        break
    matrix @ matrix
    time.sleep(now["pause"] / 1000)
    world.Barrier()
    iteration += 1
    if world.rank == 0:
        entries.append({"iteration": iteration, "elapsed_time": time.monotonic() - begun})
        with open(sys.argv[1] + "/draft", "w") as file:
            json.dump(entries, file)
        os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
"""
N = 30
MODEL = FullRunModel(N, FixedOverhead(2.0))
KNOBS = (
    Knob("pause", IntRange(1, 1000), Flag(), live=True),
    Knob("ends", IntRange(0, 1), Flag("--ends"), live=True),
    Knob("omp_threads", IntRange(1, 64), Env(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))),
)

Measure = Callable[..., Outcome]


@pytest.fixture
def jobs() -> Iterator[LiveJobs]:
    found = LiveJobs()
    yield found
    found.end()


@pytest.fixture
def measure(jobs: LiveJobs, tmp_path: Path) -> Iterator[Measure]:
    """Measure a setting in the running job, or in one of its own; none is left at the end."""
    script = tmp_path / "train.py"
    script.write_text(f"N = {N}\n{TRAINER}")
    launches: list[Launch] = []

    def measured(
        *,
        cancelled: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Progress], None] | None = None,
        stopper: EarlyStopper | None = None,
        **values: int,
    ) -> Outcome:
        spec = StudySpec(
            name="live",
            command=(sys.executable, str(script), "{out}", "{pause}"),
            launcher=launchers.find(None, environ=os.environ),
            layout=Layout(2),
            machine=machine.this_machine(),
            knobs=KNOBS,
            precision=0.2,
            stall_limit_s=3.0,
            trial_limit_s=60.0,
        )
        number, setting = len(launches) + 1, Setting.of(values)
        marker, folder = uuid.uuid4().hex, tmp_path / f"trial-{number}"
        launches.append(
            render.launch(spec, setting, folder, environ=os.environ, cwd=tmp_path, marker=marker)
        )
        request = MeasurementRequest(
            number,
            launches[-1],
            spec,
            setting,
            stopper=stopper,
            on_progress=on_progress or trial.ignore,
            cancelled=cancelled,
        )
        return jobs.window(request, MODEL)

    yield measured
    jobs.end()
    assert [alive(launch) for launch in launches] == [[]] * len(launches)


def finished(outcome: Outcome) -> Finished:
    assert isinstance(outcome.ending, Finished), outcome.ending
    return outcome.ending


def test_settings_are_measured_in_one_job(jobs: LiveJobs, measure: Measure) -> None:
    seen: list[Progress] = []
    slow = measure(pause=40, ends=0, omp_threads=1)
    quick = measure(pause=10, ends=0, omp_threads=2, on_progress=seen.append)
    slow_window, quick_window = slow.window, quick.window
    assert slow_window is not None and quick_window is not None
    assert (slow_window.job, quick_window.job) == (1, 1)
    assert jobs._job is not None and jobs._job.can >= {"ends", "omp_threads", "pause"}
    assert finished(slow).iterations == finished(quick).iterations == N
    assert finished(slow).elapsed_s > 1.5 * finished(quick).elapsed_s
    assert finished(quick).elapsed_s == pytest.approx(quick_window.pace_s * (N + 2))
    assert slow_window.started_s > 0 == quick_window.started_s
    assert slow.wall_s > slow_window.started_s
    assert quick_window.iterations >= 5 and quick_window.discarded >= 1
    assert quick_window.at_s > slow_window.at_s
    verdicts = {effect.knob: effect for effect in quick.effects}
    assert verdicts["pause"].verdict is Verdict.HONOURED
    assert verdicts["omp_threads"].observed == min(2, len(os.sched_getaffinity(0)))
    assert quick.telemetry is not None and quick.load is not None
    assert seen and seen[-1].iteration == quick_window.iterations


def test_an_interrupt_leaves_nothing(jobs: LiveJobs, measure: Measure) -> None:
    def interrupt(_: Progress) -> None:
        if jobs._job is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(pause=10, ends=0, on_progress=interrupt)
    assert jobs._job is None
