"""Knobs of the table under the real mpirun: what a rank really gets."""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path

import pytest

from tuner.config.applicability import TargetHost, answer
from tuner.hosts import machine
from tuner.hosts.machine import host_features
from tuner.knobs import knob
from tuner.launch import launchers, render, trial
from tuner.model import Choice, Finished, Layout, Setting, StudySpec, Value, Verdict

pytestmark = pytest.mark.system

#: Rank 0 writes what it got, and Chainer's log.
TRAINER = """
import json, os, sys
from mpi4py import MPI
out, world = sys.argv[1], MPI.COMM_WORLD
assert world.allreduce(1) == 2
with open("/proc/self/maps") as maps:
    malloc = sorted({line.split()[-1] for line in maps if "malloc" in line})
if world.rank == 0:
    variables = {k: v for k, v in os.environ.items() if k.startswith("OMP")}
    with open(out + "/got", "w") as file:
        json.dump([len(os.sched_getaffinity(0)), malloc, variables, sys.argv[2:]], file)
    with open(out + "/draft", "w") as file:
        json.dump([{"iteration": n, "elapsed_time": 0.1 * n} for n in (1, 2)], file)
    os.replace(out + "/draft", out + "/log")
"""

#: All of these at once, each with a value that is not the default.
ASKED: dict[str, Value] = {
    "bind_to": "core",
    "map_by": "slot",
    "omp_proc_bind": "close",
    "omp_places": "cores",
    "ompi_btl": "tcp",
    "ompi_tcp_eager_limit": 262_144,
    "ompi_allreduce": "ring",
    "fp16_gradients": "on",
}


def test_what_is_asked_for_reaches_the_rank(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    info = launchers.find(None, environ=os.environ)
    if info.kind != "openmpi":
        pytest.skip("Open MPI's own knobs")
    host = TargetHost(machine.this_machine(), Layout(2), info, host_features(os.environ))
    preloads = answer(knob("allocator"), host).knob
    assert isinstance(preloads.domain, Choice)
    asked = ASKED | {"allocator": preloads.domain.values[-1]}
    script = tmp_path / "train.py"
    script.write_text(TRAINER)
    spec = StudySpec(
        "knobs",
        (sys.executable, str(script), "{out}", "--half", "{fp16_gradients}"),
        info,
        host.layout,
        host.machine,
        tuple(answer(knob(name), host).knob for name in asked),
        trial_limit_s=60.0,
    )
    setting, marker = Setting.of(asked), uuid.uuid4().hex
    launch = render.launch(
        spec, setting, tmp_path / "trial", environ=os.environ, cwd=tmp_path, marker=marker
    )
    outcome = trial.run(launch, spec=spec, setting=setting, expected_iterations=None)
    assert isinstance(outcome.ending, Finished), outcome.ending
    cpus, libraries, variables, words = json.loads((launch.out_dir / "got").read_text())
    assert cpus == host.machine.logical_cpus // host.machine.physical_cores
    assert words == ["--half"]
    assert variables["OMPI_MCA_btl"] == "self,tcp"
    assert variables["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "4"
    assert variables["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"
    assert variables["OMP_PLACES"] == "cores"
    assert any(str(asked["allocator"]) in each for each in libraries) == bool(host.found.allocators)
    seen = {effect.knob: effect.verdict for effect in outcome.effects}
    assert seen["bind_to"] is Verdict.HONOURED
    assert seen["allocator"] is Verdict.HONOURED
    assert seen["ompi_btl"] is Verdict.NOT_OBSERVABLE
