"""The core budget: what there is, what is asked for, and what is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_samples import SPEC
from tuner.knobs import core_budget
from tuner.model import Choice, Domain, Flag, IntRange, Knob, Layout, Machine, StudySpec

MACHINE = Machine("host", "cpu", 16, 8, 16, None, 1, 2**30)


def spec_of(
    domains: dict[str, Domain],
    ranks: int = 2,
    oversubscription: float | None = core_budget.OVERSUBSCRIPTION,
) -> StudySpec:
    return replace(
        SPEC,
        knobs=tuple(Knob(name, domain, Flag("-x")) for name, domain in domains.items()),
        machine=MACHINE,
        layout=Layout(ranks),
        oversubscription=oversubscription,
    )


@pytest.mark.parametrize(
    ("changes", "cores"),
    [
        ({}, 8),  # two hardware threads a core
        ({"quota_cpus": 3.0}, 3),
        ({"affinity_cpus": 3}, 2),
        ({"affinity_cpus": 4, "quota_cpus": 1.0}, 1),
        ({"physical_cores": 0, "logical_cpus": 0}, 1),
    ],
)
def test_cores_are_physical_within_affinity_and_quota(
    changes: dict[str, float], cores: int
) -> None:
    assert replace(MACHINE, **changes).usable_cores == cores  # type: ignore[arg-type]


def test_what_is_left_out_is_said_in_a_sentence() -> None:
    spec = spec_of({"omp_threads": IntRange(1, 20), "batch": Choice(("a", "b"))})
    assert core_budget.left_out(spec) == (
        "not tried: settings that ask for more than 32, 4 times as many (--oversubscribe 4)"
    )
    assert core_budget.summary(spec) == (
        "2 ranks x (threads + workers x their threads): settings ask for 2 to 40 cores;"
        " this host has 8"
    )
    assert core_budget.summary(spec_of({"batch": IntRange(1, 2)})) == ""
    assert core_budget.left_out(spec_of({"omp_threads": IntRange(1, 16)})) == ""
    # 64 ranks on 8 cores ask for 8 times as many with one thread each.
    assert core_budget.most_demand(spec_of({"omp_threads": IntRange(1, 8)}, ranks=64)) == 32.0
