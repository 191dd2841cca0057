from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.study_surface import SPEC
from tuner.model import Env, Flag, Route, StudySpec
from tuner.model.errors import UsageError
from tuner.store.identity import difference, identity, require_same


def test_what_may_change() -> None:
    machine = replace(SPEC.machine, memory_bytes=(8 << 30) + 5000)
    other = replace(SPEC, machine=machine, knobs=(), trials=99, seed=3, trial_limit_s=4.0)
    assert difference(identity(SPEC), identity(replace(other, job=("train", "--all")))) == []


def test_every_difference_is_named() -> None:
    other = replace(
        SPEC,
        command=("train", "--fast"),
        folder="/elsewhere",
        interpreter="/venv/bin/python",
        layout=replace(SPEC.layout, ranks=4),
        global_batch=8,
        launcher=replace(
            SPEC.launcher, version="4.1.8", mpirun="/usr/bin/mpirun", libmpi="/usr/lib/libmpi.so"
        ),
        machine=replace(SPEC.machine, cpu_model="Other", gpus=("A100",)),
    )
    assert difference(identity(SPEC), identity(other)) == [
        "command: train --out {out} -> train --fast",
        "folder that the command runs in: none -> /elsewhere",
        "interpreter: none -> /venv/bin/python",
        "ranks: 2 -> 4",
        "global batch: none -> 8",
        "MPI: openmpi 5.0.11 -> openmpi 4.1.8",
        "mpirun: /opt/mpi/bin/mpirun -> /usr/bin/mpirun",
        "MPI library: none -> /usr/lib/libmpi.so",
        "CPU: Some CPU -> Other",
        "GPUs: none -> A100",
    ]
    with pytest.raises(UsageError, match="ranks: 2 -> 4; global"):
        require_same(other, identity(SPEC))


def test_an_edited_program_is_named_with_the_next_step() -> None:
    old, new = (replace(SPEC, programs=(("train.py", n), (f"{n}.py", n))) for n in "12")
    with pytest.raises(
        UsageError, match=r"^you edited train\.py since the study .* measured the old one\n"
    ) as caught:
        require_same(new, identity(old))
    assert "--fresh" in caught.value.hint and "--same-program" in caught.value.hint
    require_same(replace(new, same_program=True), identity(old))
    require_same(new, identity(SPEC))  # its program was not read


def knob(route: Route, **changes: Any) -> StudySpec:
    speed = replace(SPEC.knobs[0], name="speed", route=route)
    return replace(SPEC, knobs=(replace(speed, **changes), SPEC.knobs[1]))


def test_how_a_knob_reaches_the_program() -> None:
    by_name = identity(knob(Env(("AAA",))))
    by_flag = identity(knob(Flag("-s")))
    assert difference(by_name, by_flag) == ["route of speed: AAA -> -s"]
    assert difference(by_name, identity(SPEC)) == [], "a knob that only one of them tunes"
    placed = replace(knob(Flag("-s")), command=("train", "{out}", "-s", "{speed}"))
    other = replace(knob(Flag()), command=placed.command)
    assert difference(identity(placed), identity(other)) == []
