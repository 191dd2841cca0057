from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.study_surface import SPEC
from tuner.errors import UsageError
from tuner.store.identity import difference, identity, require_same


def test_the_same_study_has_no_difference() -> None:
    stored = json.loads(json.dumps(identity(SPEC)))
    assert difference(stored, identity(SPEC)) == []
    require_same("x", stored, identity(SPEC))


@pytest.mark.parametrize(
    "changed",
    [
        replace(SPEC, trials=99),
        replace(SPEC, seed=3),
        replace(SPEC, knobs=()),
        replace(SPEC, trial_limit_s=4.0),
        replace(SPEC, machine=replace(SPEC.machine, memory_bytes=(8 << 30) + 5000)),
        replace(SPEC, launcher=replace(SPEC.launcher, mpirun="/moved/bin/mpirun")),
    ],
)
def test_what_may_change(changed: object) -> None:
    assert difference(identity(SPEC), identity(changed)) == []  # type: ignore[arg-type]


def test_every_difference_is_named() -> None:
    other = replace(
        SPEC,
        command=("train", "--fast"),
        folder="/elsewhere",
        layout=replace(SPEC.layout, ranks=4),
        launcher=replace(SPEC.launcher, version="4.1.8"),
        machine=replace(SPEC.machine, cpu_model="Other", gpus=("A100",)),
    )
    assert difference(identity(SPEC), identity(other)) == [
        "command: train --out {out} -> train --fast",
        "folder of the command's relative paths: none -> /elsewhere",
        "ranks: 2 -> 4",
        "MPI: openmpi 5.0.11 -> openmpi 4.1.8",
        "CPU: Some CPU -> Other",
        "GPUs: none -> A100",
    ]
    with pytest.raises(UsageError, match="ranks: 2 -> 4; MPI"):
        require_same("x", identity(SPEC), identity(other))


def test_a_part_that_only_one_side_knows_is_a_difference() -> None:
    assert difference({"a": 1}, {}) == ["a: 1 -> none"]
    assert difference({}, {"a": ["x", "y"]}) == ["a: none -> x y"]
