"""The PyTorch trainer under the real mpirun and torchrun, by its study files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.config import spec as specs
from tuner.config import study_file
from tuner.hosts.procfs import processes
from tuner.hosts.supervisor.table import carriers
from tuner.launch import render, trial
from tuner.model import Finished, Outcome, Setting, Verdict

pytestmark = [pytest.mark.system, pytest.mark.slow]

SMALL = ("--iterations", "2", "--batchsize", "4", "--crop", "16")


def run(name: str, folder: Path, **values: int | str) -> Outcome:
    """A launch of a shipped study on two ranks; afterwards nothing of it may be alive."""
    pytest.importorskip("torch")
    file, source = study_file.find_study_file(name, cwd=folder)
    environ = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    options = {"mpi_procs": 2}
    spec = specs.build_spec(
        file=file, source=source, command=None, options=options, environ=environ, cwd=folder
    )
    spec = replace(spec, command=(*spec.command, *SMALL))
    setting = Setting.of(values)
    launch = render.launch(
        spec, setting, folder / name, environ=environ, cwd=folder, marker=f"test-{name}"
    )
    outcome = trial.run(launch, spec=spec, setting=setting, expected_iterations=None)
    assert carriers(processes(), f"test-{name}") == []
    return outcome


def finished(outcome: Outcome) -> Finished:
    assert isinstance(outcome.ending, Finished), outcome.ending
    return outcome.ending


def test_the_same_training_under_mpirun_and_torchrun(tmp_path: Path) -> None:
    one = run("torch_ddp", tmp_path, omp_threads=1, iterator_workers=1)
    two = run("torch_ddp_torchrun", tmp_path, iterator_workers=2, prefetch=1, start_method="fork")
    assert finished(one).iterations == finished(two).iterations == 2
    assert finished(one).loss == pytest.approx(finished(two).loss, rel=1e-5)
    assert finished(one).loss is not None
    for outcome in (one, two):
        assert outcome.observation is not None
        ranks = outcome.observation.ranks
        assert [(rank.rank, rank.world_size, rank.reported) for rank in ranks] == [
            (0, 2, True),
            (1, 2, True),
        ]
    assert one.effects[1].knob == "omp_threads" and one.effects[1].verdict is Verdict.HONOURED
    # torchrun's own number where nothing sets one
    assert two.observation is not None
    assert all(("torch", 1) in rank.pools for rank in two.observation.ranks)
