"""The command of the report makes the same study again."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from tests.study_samples import SPEC, setting, study
from tuner.cli.app import cli
from tuner.model import ObjectiveSpec, StudySpec
from tuner.report import again


def words(spec: StudySpec) -> list[str]:
    return shlex.split(again.command(dataclasses.replace(study(), spec=spec)))


def test_the_whole_command_stands_behind_its_options() -> None:
    spec = dataclasses.replace(SPEC, seed=3, fixed=setting(communicator="flat"), folder="/a b")
    assert words(spec) == [
        *("cd", "/a b", "&&", "tune", "--mpi-procs", "2", "--trials", "8", "--seed", "3"),
        *("--name", "mnist", "--storage", "studies/tune.db", "--fix", "communicator=flat"),
        *("--knob", "omp_threads=1..4", "--knob", "iterator_workers=1..4", "--"),
        *("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"),
    ]


def test_a_study_file_and_a_shipped_trainer_stand_for_what_they_hold() -> None:
    assert words(dataclasses.replace(SPEC, source="a/my.toml"))[-2:] == ["--study", "a/my.toml"]
    shipped = ("{python}", "{workloads}/chainer_mnist.py", "{out}")
    found = words(dataclasses.replace(SPEC, command=shipped, source="chainer_mnist.toml (shipped)"))
    assert found[-2:] == ["--storage", "studies/tune.db"]


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


def test_every_option_that_is_named_exists() -> None:
    run = cli.get_command(cli.make_context("tune", ["--help"], resilient_parsing=True), "run")
    assert run is not None
    known = {name for param in run.params for name in param.opts}
    spec = dataclasses.replace(
        SPEC,
        seed=1,
        oversubscription=2.0,
        objective=ObjectiveSpec("pattern", pattern="x", unit="u", maximize=True, filename="y"),
    )
    options = [word for word in words(spec)[: words(spec).index("--")] if word.startswith("--")]
    assert set(options) <= known
