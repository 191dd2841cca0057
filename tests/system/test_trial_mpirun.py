"""Trials under the real mpirun and torchrun: how they end, and what a rank really gets."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.system.jobs import ENVIRON, failed, finished, run, run_trainer
from tuner.config.applicability import TargetHost, knob_on_host
from tuner.config.spec import build_spec
from tuner.config.study_file import find_study_file
from tuner.hosts import machine
from tuner.hosts.machine import host_features
from tuner.knobs import knob
from tuner.launch.launchers import discovery
from tuner.model import SHARE, Choice, FailureKind, Layout, Outcome, Setting, Value, Verdict

pytestmark = pytest.mark.system

#: Rank 0 writes what it got.
WHAT_IT_GOT = """
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
    info = discovery.find(None, environ=os.environ)
    if info.kind != "openmpi":
        pytest.skip("Open MPI's own knobs")
    host = TargetHost(machine.this_machine(), Layout(2), info, host_features(os.environ))
    preloads = knob_on_host(knob("allocator"), host).knob
    assert isinstance(preloads.domain, Choice)
    asked = ASKED | {"allocator": preloads.domain.values[-1]}
    outcome = run_trainer(
        *(tmp_path, WHAT_IT_GOT, "--half", "{fp16_gradients}"),
        setting=Setting.of(asked),
        knobs=tuple(knob_on_host(knob(name), host).knob for name in asked),
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
    assert any(str(asked["allocator"]) in each for each in libraries) == bool(
        host.features.allocators
    )
    verdicts = {effect.knob: effect.verdict for effect in outcome.effects}
    assert verdicts["bind_to"] is verdicts["allocator"] is Verdict.HONOURED
    assert verdicts["ompi_btl"] is Verdict.NOT_OBSERVABLE


def test_each_rank_is_seen_to_have_its_share_of_the_cores(tmp_path: Path) -> None:
    if (cores := machine.this_machine().usable_cores) < 2:
        pytest.skip("needs two cores")
    asked = Setting.of({"cores_per_rank": SHARE})
    outcome = run_trainer(
        tmp_path, "report(0.1, 0.2)", setting=asked, knobs=(knob("cores_per_rank"),)
    )
    (effect,) = outcome.effects
    assert (effect.verdict, effect.observed) == (Verdict.HONOURED, cores // 2), effect.reason


@pytest.mark.slow
def test_a_torchrun_that_is_ended_from_outside_was_interrupted(tmp_path: Path) -> None:
    """The trainer has no need of torch, which would only cost time."""
    pytest.importorskip("torch")
    torchrun = discovery.find(None, kind="torchrun", program=sys.executable, environ=ENVIRON)
    body = 'subprocess.Popen(["sleep", "600"])\nif rank == 1: os.kill(os.getppid(), 15)\n'
    ending = failed(run_trainer(tmp_path, body + "time.sleep(600)", launcher=torchrun))
    assert ending.kind is FailureKind.INTERRUPTED
    assert "torchrun was ended by SIGTERM" in ending.reason


# --- the PyTorch trainer by its study files -------------------------------------------------------

SMALL = ("--iterations", "2", "--batchsize", "4", "--crop", "16")


def trained(name: str, folder: Path, **values: int | str) -> Outcome:
    """A launch of a shipped study on two ranks."""
    pytest.importorskip("torch")
    file, source = find_study_file(name, cwd=folder)
    options = {"mpi_procs": 2}
    spec = build_spec(file=file, source=source, options=options, environ=ENVIRON, cwd=folder)
    spec = replace(spec, command=(*spec.command, *SMALL))
    outcome = run(spec, Setting.of(values), folder / name)
    assert finished(outcome).iterations == 2
    assert outcome.observation is not None
    ranks = [(rank.rank, rank.world_size, rank.reported) for rank in outcome.observation.ranks]
    assert ranks == [(0, 2, True), (1, 2, True)]
    return outcome


@pytest.mark.slow
def test_the_same_training_under_mpirun_and_torchrun(tmp_path: Path) -> None:
    one = trained("torch_ddp", tmp_path, omp_threads=1, iterator_workers=1)
    two = trained(
        "torch_ddp_torchrun", tmp_path, iterator_workers=2, prefetch=1, start_method="fork"
    )
    assert finished(one).loss == pytest.approx(finished(two).loss, rel=1e-5)
    assert finished(one).loss is not None
    assert one.effects[1].knob == "omp_threads" and one.effects[1].verdict is Verdict.HONOURED
    assert two.observation is not None
    for rank in two.observation.ranks:
        assert ("torch", 1) in rank.pools, "torchrun's own number if nothing sets one"
