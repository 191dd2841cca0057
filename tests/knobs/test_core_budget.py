"""The core budget: what there is, what is asked for, and what is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import SPEC
from tuner.knobs import core_budget, space
from tuner.model import (
    UNSET,
    Choice,
    Domain,
    Flag,
    IntRange,
    Knob,
    Layout,
    Machine,
    StudySpec,
    Value,
)
from tuner.search.grid import Grid, Space

MACHINE = Machine("host", "cpu", 16, 8, 16, None, 1, 2**30)
NAMES = ("omp_threads", "iterator_workers", "opencv_threads")

RANGES = st.builds(
    lambda low, more: IntRange(low, low + more), st.integers(0, 3), st.integers(0, 9)
)
NUMBERS: tuple[Value, ...] = (0, 1, 2, 3, 8, 30, UNSET)
LISTS = st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4, unique=True).map(
    lambda values: Choice(tuple(values))
)


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


specs = st.builds(
    spec_of,
    st.dictionaries(st.sampled_from([*NAMES, "batch"]), RANGES | LISTS, min_size=1),
    st.integers(1, 64),
    st.sampled_from([None, 1.0, 1.5, 4.0]),
)


@pytest.mark.parametrize(
    ("changes", "cores"),
    [
        ({}, 8),  # two hardware threads a core
        ({"logical_cpus": 8, "affinity_cpus": 8}, 8),
        ({"quota_cpus": 3.0}, 3),
        ({"quota_cpus": 0.4}, 1),
        ({"affinity_cpus": 3}, 2),
        ({"affinity_cpus": 1}, 1),
        ({"affinity_cpus": 4, "quota_cpus": 1.0}, 1),
        ({"physical_cores": 0, "logical_cpus": 0}, 1),
    ],
)
def test_cores_are_physical_within_affinity_and_quota(
    changes: dict[str, float], cores: int
) -> None:
    assert replace(MACHINE, **changes).usable_cores == cores  # type: ignore[arg-type]


@given(specs)
def test_what_is_beyond_is_what_counting_gives_and_the_least_is_tried(spec: StudySpec) -> None:
    multiples, rows = [], []
    for point in space.points(spec.knobs):
        values = point.as_dict()
        threads, workers, worker_threads = (
            max(least, value if isinstance(value := values.get(name, missing), int) else 1)
            for name, least, missing in zip(NAMES, (1, 0, 1), (1, 0, 1), strict=True)
        )
        cores = spec.layout.ranks_per_host * (threads + workers * worker_threads)
        multiples.append(cores / spec.machine.usable_cores)
        rows.append(tuple(values[knob.name] for knob in spec.knobs))
    most = core_budget.most_demand(spec)
    if most is not None:
        assert most >= max(spec.oversubscription or 0, min(multiples))
    beyond = 0 if most is None else sum(multiple > most + 1e-9 for multiple in multiples)
    assert core_budget.beyond(spec) == beyond < space.size(spec.knobs)
    assert bool(core_budget.left_out(spec)) == bool(beyond)
    axes = tuple(space.axes(spec.knobs))
    grid = Grid(Space(axes, spec.layout.ranks_per_host, spec.machine.usable_cores))
    if grid.has_roles:  # the search counts the same
        assert 2 ** grid.demand(grid.rows(rows)) == pytest.approx(multiples)


def test_what_is_left_out_is_said_in_a_sentence() -> None:
    spec = spec_of({"omp_threads": IntRange(1, 20), "batch": Choice(("a", "b"))})
    assert core_budget.left_out(spec) == (
        "not tried: 8 of the settings, which ask for more than 32, 4 times as many"
        " (--oversubscribe 4)"
    )
    assert core_budget.summary(spec) == (
        "2 ranks x (threads + workers x their threads): settings ask for 2 to 40 cores;"
        " this host has 8"
    )
    assert core_budget.summary(spec_of({"batch": IntRange(1, 2)})) == ""
    # 64 ranks on 8 cores ask for 8 times as many with one thread each.
    assert core_budget.most_demand(spec_of({"omp_threads": IntRange(1, 8)}, ranks=64)) == 32.0
