"""Knobs of the table under the real mpirun: what a rank really gets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.system.jobs import finished, run_trainer
from tuner.config.applicability import TargetHost, answer
from tuner.hosts import machine
from tuner.hosts.machine import host_features
from tuner.knobs import knob
from tuner.launch import launchers
from tuner.model import Choice, Layout, Setting, Value, Verdict

pytestmark = pytest.mark.system

#: Rank 0 writes what it got.
TRAINER = """
from mpi4py import MPI
assert MPI.COMM_WORLD.allreduce(1) == 2
with open("/proc/self/maps") as maps:
    malloc = sorted({line.split()[-1] for line in maps if "malloc" in line})
if rank == 0:
    variables = {k: v for k, v in os.environ.items() if k.startswith("OMP")}
    with open(out + "/got", "w") as file:
        json.dump([len(os.sched_getaffinity(0)), malloc, variables, sys.argv[2:]], file)
    report(0.1, 0.2)
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


def test_the_rank_has_what_was_requested(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    info = launchers.find(None, environ=os.environ)
    if info.kind != "openmpi":
        pytest.skip("Open MPI's own knobs")
    host = TargetHost(machine.this_machine(), Layout(2), info, host_features(os.environ))
    preloads = answer(knob("allocator"), host).knob
    assert isinstance(preloads.domain, Choice)
    asked = ASKED | {"allocator": preloads.domain.values[-1]}
    outcome = run_trainer(
        *(tmp_path, TRAINER, "--half", "{fp16_gradients}"),
        setting=Setting.of(asked),
        knobs=tuple(answer(knob(name), host).knob for name in asked),
        trial_limit_s=60.0,
    )
    finished(outcome)
    cpus, libraries, variables, words = json.loads((tmp_path / "a trial/out/got").read_text())
    assert cpus == host.machine.logical_cpus // host.machine.physical_cores
    assert words == ["--half"]
    assert variables["OMPI_MCA_btl"] == "self,tcp"
    assert variables["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "4"
    assert variables["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"
    assert variables["OMP_PLACES"] == "cores"
    assert any(str(asked["allocator"]) in each for each in libraries) == bool(host.found.allocators)
    verdicts = {effect.knob: effect.verdict for effect in outcome.effects}
    assert verdicts["bind_to"] is verdicts["allocator"] is Verdict.HONOURED
    assert verdicts["ompi_btl"] is Verdict.NOT_OBSERVABLE
