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
from tuner.config.study_file import parse
from tuner.model import JobFacts, LineChange
from tuner.model.errors import UsageError

CHANGE = LineChange(
    launcher=("--bind-to", "core"),
    environment=("-u", "A", "OMP_NUM_THREADS=2"),
    options=(("--workers", "3"),),
)
CHANGED = {
    "mpirun -n 8 python t.py --workers 9 x": (
        "mpirun --bind-to core -n 8 env -u A OMP_NUM_THREADS=2 python t.py --workers 3 x"
    ),
    "srun -n8 -- ./t --workers=9 --workers 1": (
        "srun --bind-to core -n8 -- env -u A OMP_NUM_THREADS=2 ./t --workers=3 --workers 3"
    ),
    "torchrun --nproc-per-node 2 t.py": (
        "torchrun --bind-to core --nproc-per-node 2 --no-python env -u A OMP_NUM_THREADS=2"
        " python t.py"
    ),
}


@pytest.mark.parametrize(("line", "changed"), CHANGED.items())
def test_a_setting_is_put_into_the_typed_line(line: str, changed: str) -> None:
    job = typed_job.read(shlex.split(line), {"PATH": ""})
    assert job.with_change(CHANGE) == tuple(changed.split())
    assert job.with_change(LineChange()) == tuple(line.split())


FACTS = JobFacts("/a/t.py", "1", "/python", "2", "3", "mpirun", ranks=8, hosts=1, host_type="Xeon")
SAME: list[str] = []


@pytest.mark.parametrize(
    ("other", "differences"),
    [
        (FACTS, SAME),
        (replace(FACTS, program="/b/t.py"), ["its file was /b/t.py"]),
        (replace(FACTS, program_digest="9"), ["its file was changed since"]),
        (replace(FACTS, program="/b/t.py", program_digest="9"), None),
        (replace(FACTS, interpreter="/other"), ["it ran by /other"]),
        (replace(FACTS, arguments_digest="9"), ["it had other arguments"]),
        (replace(FACTS, environment_digest="9"), ["other variables were set"]),
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
        return typed_job.facts(job, MACHINE, environ | variables, tmp_path)

    assert facts("mpirun -H a:2,b:2 ./t") == facts("mpirun -H c:2,d:2 ./t")
    assert facts("mpirun -H a:2,b:2 ./t").hosts == 2
    slurm = facts("srun ./t", SLURM_JOB_ID="1", SLURM_NTASKS="6", SLURM_JOB_NUM_NODES="3")
    assert (slurm.ranks, slurm.hosts) == (6, 3)
    assert facts("mpirun -n 4 ./t") != facts("mpirun --bind-to none -n 4 ./t")


ANOTHER, OTHER_ARGUMENTS = None, ["it had other arguments"]


@pytest.mark.parametrize(
    ("one", "other", "differences"),
    [
        ("python t.py 1", "python t.py 2", OTHER_ARGUMENTS),
        ("python -m t 1", "python -m t 2", OTHER_ARGUMENTS),
        ("python -m t 1", "python -m u 1", ANOTHER),
        ("python -m installed", "python -m another", ANOTHER),
        ("sh t.sh 1", "sh t.sh 2", OTHER_ARGUMENTS),
        ("sh t.sh", "sh u.sh", ANOTHER),
        ("sh -c t.sh", "sh -c u.sh", ANOTHER),
        ("./t 1", "./t 2", OTHER_ARGUMENTS),
        ("./missing", "./another", ANOTHER),
        ("./bind.sh ./t", "./bind.sh ./u", ANOTHER),
        ("nice ./t", "nice ./u", ANOTHER),
        ("python -c 1", "python -c 2", ANOTHER),
    ],
)
def test_jobs_are_alike_only_if_they_run_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str, differences: object
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t", "t.py", "t.sh", "u.py", "u.sh", "u"):
        (tmp_path / name).write_text(name)
    (tmp_path / "bind.sh").write_text("#!/bin/sh")
    facts, other_facts = (
        typed_job.facts(typed_job.read(shlex.split(line), {}), MACHINE, {}, tmp_path)
        for line in (f"mpirun -n 4 {one}", f"mpirun -n 4 {other}")
    )
    assert facts.differences(facts) == []
    assert facts.differences(other_facts) == differences


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
    assert (spec.objective.kind, spec.budget_s) == ("logreport", 25)
    assert {knob.name: knob.default for knob in spec.knobs}["iterator_workers"] == 4


FILE = """
command = "{python} t.py --epochs 1 --num-workers {{iterator_workers}} --out {{out}}"
objective = {{ kind = "wall" }}
knobs.iterator_workers = {{ range = "0..4" }}
"""


@pytest.mark.parametrize(
    ("file", "line", "job"),
    [
        (FILE, "t.py --num-workers 3", "t.py --num-workers {iterator_workers}"),
        (
            FILE.replace(" --num-workers {{iterator_workers}}", "").split("knobs")[0],
            *("t.py --num-workers 3", "t.py --num-workers 3"),
        ),
    ],
    ids=["the value in the line is the baseline", "the file has no such knob"],
)
def test_a_study_file_says_which_options_of_the_line_are_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, line: str, job: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    document = parse(file.format(python=sys.executable).encode(), "file")
    typed = typed_job.read([sys.executable, *line.split()], {})
    spec = study_of_job(typed, file=document, short=(), limit_s=9, environ={}, cwd=tmp_path)
    assert spec.job[1:] == tuple(job.split())
    defaults = {knob.name: knob.default for knob in spec.knobs}
    assert defaults.get("iterator_workers", 3) == 3
    with pytest.raises(UsageError, match=r"job has no \{iterator_workers\}"):
        typed = typed_job.read([sys.executable, "t.py"], {})
        document = parse(FILE.format(python=sys.executable).encode(), "file")
        study_of_job(typed, file=document, short=(), limit_s=9, environ={}, cwd=tmp_path)


def test_what_stands_before_the_launcher_goes_before_tune() -> None:
    with pytest.raises(UsageError, match="`env A=1` stands before mpirun") as raised:
        typed_job.read(shlex.split("env A=1 mpirun -n 2 ./t"), {})
    assert raised.value.hint == "env A=1 tune exec …"
