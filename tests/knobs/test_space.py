"""The cores that there are, domains cut to the machine, and the guesses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import SPEC
from tuner.knobs import core_budget, knob, space
from tuner.model import Choice, Flag, IntRange, Knob, Layout, Lesson, Machine, Setting, StudySpec

MACHINE = Machine("host", "cpu", 8, 8, 8, None, 1, 2**30)
SMT = replace(MACHINE, logical_cpus=16, affinity_cpus=16)


def spec_of(*knobs: Knob, ranks: int = 4, machine: Machine = MACHINE) -> StudySpec:
    layout = Layout(ranks)
    resolved = space.resolve(knobs, machine, layout)
    return replace(SPEC, layout=layout, machine=machine, knobs=resolved)


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
    assert replace(SMT, **changes).usable_cores == cores  # type: ignore[arg-type]


def test_the_least_that_the_knobs_can_ask_for_is_always_tried() -> None:
    # 64 ranks on 8 cores ask for 8 times as many with one thread each.
    spec = spec_of(Knob("omp_threads", IntRange(1, 8), Flag("-x")), ranks=64)
    assert core_budget.most_demand(replace(spec, oversubscription=4.0)) == 32.0


def test_the_domains_are_cut_to_the_machine_but_not_the_users_own() -> None:
    quota, gpus = replace(MACHINE, quota_cpus=3.0), replace(MACHINE, gpus=("H200", "H200"))
    wide = replace(knob("omp_threads"), domain=IntRange(1, 64))
    communicator = knob("communicator")
    for machine, ranks, row, domain in (
        (quota, 2, knob("omp_threads"), IntRange(1, 3)),
        (quota, 2, wide, IntRange(1, 64)),
        (quota, 2, communicator, Choice(("naive",))),
        (gpus, 2, communicator, communicator.domain),
        (gpus, 3, communicator, Choice(("naive",))),
    ):
        own = frozenset({"omp_threads"} if row is wide else ())
        (resolved,) = space.resolve([row], machine, Layout(ranks), own=own)
        assert resolved.domain == domain
    with pytest.raises(ValueError, match="not resolved"):
        space.values(IntRange(1, "cores"))


def test_guesses_share_the_cores_among_the_ranks_and_others_stand_at_their_default() -> None:
    names = ("omp_threads", "iterator_workers", "opencv_threads", "communicator")
    batch = Knob("batch", IntRange(32, 64), Flag("-b"), default=48)
    spec = spec_of(*(knob(name) for name in names), batch, ranks=2)
    assert [str(guess) for guess in space.guesses(spec)] == [
        "batch=48 communicator=naive iterator_workers=4 omp_threads=4 opencv_threads=1",
        "batch=48 communicator=naive iterator_workers=1 omp_threads=1 opencv_threads=1",
    ]


@pytest.mark.parametrize(
    ("machine", "threads"),
    [
        (SMT, [4, 1]),  # 16 logical CPUs are 8 cores
        (replace(SMT, quota_cpus=6.0), [3, 1]),
    ],
)
def test_guesses_count_cores_and_not_hardware_threads(machine: Machine, threads: list[int]) -> None:
    spec = spec_of(knob("omp_threads"), ranks=2, machine=machine)
    assert [g.as_dict()["omp_threads"] for g in space.guesses(spec)] == threads
    least = spec_of(Knob("omp_threads", IntRange(7, 9), Flag("-t")), ranks=2, machine=machine)
    assert [g.as_dict()["omp_threads"] for g in space.guesses(least)] == [7]


def test_what_an_earlier_study_found_takes_the_place_of_all_guesses_but_the_first() -> None:
    spec = spec_of(knob("omp_threads"), knob("iterator_workers"), knob("bind_to"), ranks=2)
    earlier = Setting((("bind_to", "elsewhere"), ("gone", 1), ("omp_threads", 64)))
    first, second = space.guesses(replace(spec, lesson=Lesson("earlier", (earlier,))))
    assert first == space.guesses(spec)[0]
    assert second == Setting.of(first.as_dict() | {"omp_threads": 8})
