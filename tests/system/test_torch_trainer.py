"""The PyTorch trainer under the real mpirun and torchrun, by its study files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.system.jobs import ENVIRON, finished, run
from tuner.config.spec import build_spec
from tuner.config.study_file import find_study_file
from tuner.model import Outcome, Setting, Verdict

pytestmark = [pytest.mark.system, pytest.mark.slow]

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
