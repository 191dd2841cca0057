"""The command of the report makes the same study again."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.study_samples import SPEC, setting, study
from tuner.cli.base import split_tail
from tuner.cli.options import spec_of
from tuner.cli.run import command as run
from tuner.config import spec as specs
from tuner.config.options import OPTIONS
from tuner.config.spec import WantedLauncher
from tuner.hosts.machine import HostFeatures
from tuner.launch.launchers import launcher_for
from tuner.model import LauncherInfo, Machine, ObjectiveSpec, StudySpec
from tuner.model.errors import UsageError
from tuner.results.report import reproduce
from tuner.store.identity import identity

MACHINE = Machine("host", "cpu", 4, 4, 4, None, 1, 2**30)
PYTHON = (sys.executable, "-c", "pass", "{out}")
JOB = """
name = "job"
mpi_procs = 3
command = ["{python}", "-c", "pass", "--out", "{out}", "{workers}"]
job = ["{python}", "-c", "print()", "{workers}"]
trials = 30
min_gain = "3%"
precision = "4%"
warm_ups = 2
stall_limit_s = "9s"
seed = 4
[objective]
kind = "logreport"
key = "speed"
unit = "it/s"
maximize = true
[knobs.workers]
range = "1..6"
baseline = 2
[knobs.bucket]
env = "BUCKET"
values = [1, 2]
"""


def words(spec: StudySpec) -> list[str]:
    return shlex.split(reproduce.command(dataclasses.replace(study(), spec=spec)))


def find(wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]) -> LauncherInfo:
    kind = wanted.kind or "openmpi"
    args = (*wanted.args, *launcher_for(kind).inherited(environ))
    return LauncherInfo(kind, wanted.mpirun or "/found/first/mpirun", "5.0.11", None, args)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host of its own, in which nobody asks an mpirun what it is."""
    build = specs.build_spec

    def here(**given: Any) -> StudySpec:
        return build(
            **given,
            machine=MACHINE,
            found=HostFeatures({}, huge_pages="never", glibc=(2, 36)),
            find=find,
        )

    monkeypatch.setattr(specs, "build_spec", here)
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB)
    Path("plain.toml").write_text(JOB.replace("job = [", "# ["))


def asked(*args: str) -> StudySpec:
    """The study of a command line, read by the tool's own parser."""
    options, program = split_tail(args)
    return spec_of(run.make_context("run", options).params, program)


@pytest.mark.parametrize(
    "args",
    [
        ("--", *PYTHON),
        (
            *("--mpirun", "/other/mpirun", "--mpirun-arg", "-l", "--mpirun-arg", "a b"),
            *(
                "--trial-limit",
                "30s",
                "--samples-per-run",
                "10",
                "--price-per-hour",
                "3",
                "--",
                *PYTHON,
            ),
        ),
        (
            *("--launcher", "torchrun", "--stall-limit", "none", "--budget", "1.1m", "--seed", "7"),
            *(
                "--live",
                "on",
                "--min-gain",
                "0.7%",
                "--precision",
                "0.29%",
                "--oversubscribe",
                "1.25",
                "--warm-ups",
            ),
            *("0", "--no-confirm", "--knob", "omp_threads=1..2", "--", *PYTHON),
        ),
        (
            *("--objective", "pattern:x ([0-9]+)", "--unit", "-", "--maximize", "--log", "a.txt"),
            *("--knob", "depth=1,3,9", "--baseline", "depth=3", "--fix", "omp_threads=2"),
            *("--fix", "width=4", "--baseline", "width=8", "--"),
            *(*PYTHON, "{depth}", "{width}"),
        ),
        ("--objective", "wall", "--samples-per-run", "1e-7", "--", sys.executable, "-c", "pass"),
        ("--study", "job.toml"),
        (
            *(
                "--study",
                "job.toml",
                "--mpi-procs",
                "2",
                "--knob",
                "workers=2..3",
                "--min-gain",
                "1%",
            ),
            *("--precision", "2%", "--stall-limit", "120", "--warm-ups", "1", "--seed", "0"),
            *("--objective", "logreport:elapsed_time", "--knob", "bucket=2", "--confirm"),
        ),
        ("--study", "plain.toml", "--", *PYTHON, "{workers}", "other"),
        ("--study", "plain.toml", "--objective", "wall", "--fix", "workers=5"),
        ("--study", "mpi_stencil", "--knob", "omp_threads=1..2", "--trials", "9"),
        ("--", "{python}", "{workloads}/mpi_stencil.py", "--out", "{out}"),
    ],
)
@pytest.mark.parametrize("chosen", ["", "tcp,self"])
def test_the_command_asks_for_the_same_study(
    args: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen:
        monkeypatch.setenv("OMPI_MCA_btl", chosen)
    spec = asked(*args)
    found = words(spec)
    made = asked(*found[found.index("tune") + 1 :])
    assert identity(made) == identity(spec)
    assert dataclasses.replace(made, source="", left_out=()) == dataclasses.replace(
        spec, source="", left_out=()
    )


def test_every_field_of_a_study_is_said_or_follows() -> None:
    """Of a field that is added somebody must say how the command has it."""
    follows = {"machine", "left_out", "folder", "interpreter", "environment"}
    said = {
        *("name", "command", "launcher", "layout", "knobs", "fixed", "job", "objective", "source"),
        *(option.field for option in OPTIONS if option.field),
    }
    assert {field.name for field in dataclasses.fields(StudySpec)} == said | follows


def test_the_whole_command_stands_behind_its_options() -> None:
    spec = dataclasses.replace(SPEC, seed=3, fixed=setting(communicator="flat"), folder="/a b")
    assert words(spec) == [
        *("cd", "/a b", "&&", "tune", "--mpi-procs", "2", "--trials", "8", "--name", "mnist"),
        *("--storage", "studies/tune.db", "--launcher", "openmpi"),
        *("--mpirun", "/opt/mpi/bin/mpirun", "--seed", "3", "--fix", "communicator=flat"),
        *("--knob", "omp_threads=1..4", "--knob", "iterator_workers=1..4", "--"),
        *("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"),
    ]


def test_a_launcher_whose_package_is_gone_keeps_its_arguments() -> None:
    info = LauncherInfo("gone", "/x/starter", "1", None, ("--mca", "btl"))
    with pytest.raises(UsageError):
        launcher_for("gone")
    found = " ".join(words(dataclasses.replace(SPEC, launcher=info)))
    assert "--launcher gone --mpirun /x/starter --mpirun-arg=--mca --mpirun-arg btl" in found


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (ObjectiveSpec(), []),
        (ObjectiveSpec("wall"), ["--objective", "wall"]),
        (ObjectiveSpec(statistic="steady"), ["--objective", "logreport:steady"]),
        (
            ObjectiveSpec("pattern", pattern="x: ([0-9]+)", unit="ns/day", maximize=True),
            ["--objective", "pattern:x: ([0-9]+)", "--unit", "ns/day", "--maximize"],
        ),
        (ObjectiveSpec(key="loss", filename="a.json"), ["--objective", "logreport:loss", "--log"]),
    ],
)
def test_the_objective_is_asked_for_again(objective: ObjectiveSpec, said: list[str]) -> None:
    found = " ".join(words(dataclasses.replace(SPEC, objective=objective)))
    assert " ".join(said) in found
    assert ("--objective" in found) == bool(said)
