"""The core budget: what there is, and what is always tried; its sentences are shown by a study."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_samples import SPEC
from tuner.knobs import core_budget
from tuner.model import Flag, IntRange, Knob, Layout, Machine

MACHINE = Machine("host", "cpu", 16, 8, 16, None, 1, 2**30)


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
def test_cores_are_physical_in_affinity_and_quota(changes: dict[str, float], cores: int) -> None:
    assert replace(MACHINE, **changes).usable_cores == cores  # type: ignore[arg-type]


def test_the_least_that_the_knobs_can_ask_for_is_always_tried() -> None:
    # 64 ranks on 8 cores ask for 8 times as many with one thread each.
    threads = Knob("omp_threads", IntRange(1, 8), Flag("-x"))
    spec = replace(SPEC, knobs=(threads,), machine=MACHINE, layout=Layout(64), oversubscription=4.0)
    assert core_budget.most_demand(spec) == 32.0
