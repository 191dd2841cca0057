"""A typed job: what it is, the study that tunes it, and its line with a setting."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import MACHINE
from tuner.config import typed_job
from tuner.config.job_study import study_of_job
from tuner.model import JobFacts, LineChange

CHANGE = LineChange(
    launcher=("--bind-to", "core"),
    environment=("-u", "A", "OMP_NUM_THREADS=2"),
    options=(("--workers", "3"),),
)
CHANGED = {
    "mpirun -n 8 python t.py --workers 9 x": (
        "mpirun --bind-to core -n 8 env -u A OMP_NUM_THREADS=2 python t.py --workers 3 x"
    ),
    "srun -n8 -- ./t --workers=9": (
        "srun --bind-to core -n8 -- env -u A OMP_NUM_THREADS=2 ./t --workers=3"
    ),
    "torchrun --nproc-per-node 2 t.py": (
        "torchrun --bind-to core --nproc-per-node 2 --no-python env -u A OMP_NUM_THREADS=2"
        " python t.py --workers 3"
    ),
    "python t.py": "--bind-to core env -u A OMP_NUM_THREADS=2 python t.py --workers 3",
}


@pytest.mark.parametrize(("line", "changed"), CHANGED.items())
def test_a_setting_is_put_into_the_typed_line(line: str, changed: str) -> None:
    job = typed_job.read(shlex.split(line), {"PATH": ""})
    assert job.with_change(CHANGE) == tuple(changed.split())
    assert job.with_change(LineChange()) == tuple(line.split())


FACTS = JobFacts("/a/t.py", "1", "2", "mpirun", ranks=8, hosts=1, host_type="Xeon")
SAME: list[str] = []


@pytest.mark.parametrize(
    ("other", "differences"),
    [
        (FACTS, SAME),
        (replace(FACTS, program="/b/t.py"), ["its file was /b/t.py"]),
        (replace(FACTS, program_digest="9"), ["its file was changed since"]),
        (replace(FACTS, program="/b/t.py", program_digest="9"), None),
        (replace(FACTS, arguments_digest="9"), ["it had other arguments"]),
        (replace(FACTS, ranks=6), ["6 ranks, not 8"]),
        (replace(FACTS, ranks=5), None),
        (replace(FACTS, launcher="srun"), None),
        (replace(FACTS, hosts=2), None),
        (replace(FACTS, host_type="EPYC"), None),
    ],
)
def test_jobs_are_alike_if_little_differs(other: JobFacts, differences: list[str] | None) -> None:
    assert FACTS.differences(other) == differences


def test_the_hosts_of_a_job_count_but_not_their_names(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin"}

    def facts(line: str, **variables: str) -> JobFacts:
        job = typed_job.read(shlex.split(line), environ | variables)
        return typed_job.facts(job, MACHINE, environ | variables)

    assert facts("mpirun -H a:2,b:2 ./t") == facts("mpirun -H c:2,d:2 ./t")
    assert facts("mpirun -H a:2,b:2 ./t").hosts == 2
    slurm = facts("srun ./t", SLURM_JOB_ID="1", SLURM_NTASKS="6", SLURM_JOB_NUM_NODES="3")
    assert (slurm.ranks, slurm.hosts) == (6, 3)
    assert facts("mpirun -n 4 ./t") != facts("mpirun --bind-to none -n 4 ./t")
    # A shell runs another program with other words.
    assert facts("mpirun -n 4 sh a").differences(facts("mpirun -n 4 sh b")) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "{python} t.py --epochs 1 --out result",
            "t.py --epochs 1 --out {out} --num-workers {iterator_workers}",
        ),
        (
            "--epochs 1",
            "t.py --num-workers {iterator_workers} --out {out} --name {{x}} --epochs 1",
        ),
        ("", "t.py --num-workers {iterator_workers} --out {out} --name {{x}}"),
    ],
)
def test_short_runs_keep_clear_of_the_jobs_output_and_set_the_options_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("import numpy, LogReport")
    line = f"{sys.executable} t.py --num-workers 4 --out result --name '{{x}}'"
    job = typed_job.read(shlex.split(line), {})
    short = shlex.split(text.format(python=sys.executable))
    spec = study_of_job(job, file=None, short=short, limit_s=100, environ={}, cwd=tmp_path)
    assert spec.job[1:] == (
        *("t.py", "--num-workers", "{iterator_workers}", "--out", "result", "--name", "{{x}}"),
    )
    assert spec.command[1:] == tuple(command.split())
    assert (spec.objective.kind, spec.budget_s) == ("logreport", 40)
    assert {knob.name: knob.default for knob in spec.knobs}["iterator_workers"] == 4
