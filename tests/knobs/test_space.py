"""Domains cut to the machine, the points and the guesses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import SPEC
from tuner.knobs import knob, space
from tuner.model import (
    Choice,
    Domain,
    Flag,
    IntRange,
    Knob,
    Layout,
    Machine,
    Setting,
    StudySpec,
    Value,
)

MACHINE = Machine("host", "cpu", 8, 8, 8, None, 1, 2**30)


def spec_of(*knobs: Knob, ranks: int = 4, machine: Machine = MACHINE) -> StudySpec:
    layout = Layout(ranks)
    resolved = space.resolve(knobs, machine, layout)
    return replace(SPEC, layout=layout, machine=machine, knobs=resolved)


def test_a_users_range_may_exceed_the_machine() -> None:
    wide = replace(knob("omp_threads"), domain=IntRange(1, 64))
    (resolved,) = space.resolve([wide], MACHINE, Layout(2), own=frozenset({"omp_threads"}))
    assert resolved.domain == IntRange(1, 64)


def test_the_domains_are_cut_to_the_machine() -> None:
    quota = replace(MACHINE, quota_cpus=3.0)
    knobs = space.resolve([knob("omp_threads"), knob("communicator")], quota, Layout(2))
    assert [k.domain for k in knobs] == [IntRange(1, 3), Choice(("naive",))]


def test_a_gpu_for_each_rank_brings_the_other_communicators() -> None:
    gpus = replace(MACHINE, gpus=("H200", "H200"))
    whole = knob("communicator").domain
    assert space.resolve([knob("communicator")], gpus, Layout(2))[0].domain == whole
    assert space.resolve([knob("communicator")], gpus, Layout(3))[0].domain == Choice(("naive",))


def test_values_of_an_open_range_need_a_machine() -> None:
    assert space.values(IntRange(1, "cores"), MACHINE) == tuple(range(1, 9))
    with pytest.raises(ValueError, match="not resolved"):
        space.values(IntRange(1, "cores"))


def domains() -> st.SearchStrategy[Domain]:
    ranges = st.tuples(st.integers(1, 5), st.integers(0, 4)).map(lambda p: IntRange(p[0], sum(p)))
    value: st.SearchStrategy[Value] = st.one_of(st.integers(1, 9), st.sampled_from(["a", "b"]))
    choices = st.lists(value, min_size=1, max_size=4, unique=True).map(lambda v: Choice(tuple(v)))
    return st.one_of(ranges, choices)


def knob_lists() -> st.SearchStrategy[list[Knob]]:
    names = ["omp_threads", "iterator_workers", "extra"]
    return st.lists(domains(), min_size=1, max_size=3).map(
        lambda ds: [Knob(name, d, Flag("-x")) for name, d in zip(names, ds, strict=False)]
    )


def test_contains_wants_every_knob_and_the_fixed_values() -> None:
    knobs = [Knob("a", IntRange(1, 2), Flag("-a")), Knob("b", IntRange(1, 2), Flag("-b"))]
    inside = Setting.of({"a": 1, "b": 2})
    assert space.contains(knobs, Setting.of({"b": 2}), inside)
    assert not space.contains(knobs, Setting.of({"b": 1}), inside)
    assert not space.contains(knobs, Setting(), Setting.of({"a": 1}))
    assert not space.contains(knobs, Setting(), Setting.of({"a": 1, "b": 3}))
    assert not space.contains(knobs, Setting(), Setting.of({"a": 1, "b": 2, "c": 1}))


def test_guesses_share_the_cores_among_the_ranks_then_one() -> None:
    names = ("omp_threads", "iterator_workers", "opencv_threads", "communicator")
    spec = spec_of(*(knob(name) for name in names), ranks=2)
    assert [str(guess) for guess in space.guesses(spec)] == [
        "communicator=naive iterator_workers=4 omp_threads=4 opencv_threads=1",
        "communicator=naive iterator_workers=1 omp_threads=1 opencv_threads=1",
    ]


def test_guesses_count_cores_and_not_their_hardware_threads() -> None:
    """16 logical CPUs are 8 cores; a quota and an affinity leave fewer."""
    smt = replace(MACHINE, logical_cpus=16, affinity_cpus=16)
    for machine, threads in (
        (smt, [4, 1]),
        (replace(smt, affinity_cpus=8), [2, 1]),
        (replace(smt, quota_cpus=6.0), [3, 1]),
        (replace(smt, quota_cpus=2.0), [1]),
    ):
        spec = spec_of(knob("omp_threads"), ranks=2, machine=machine)
        assert [g.as_dict()["omp_threads"] for g in space.guesses(spec)] == threads


@given(knob_lists(), st.integers(1, 64), st.integers(1, 64))
def test_guesses_are_points_with_no_count_above_the_cores_of_a_rank(
    knobs: list[Knob], ranks: int, cores: int
) -> None:
    """If the domain has nothing as low: the lowest that it has."""
    machine = replace(MACHINE, logical_cpus=cores, physical_cores=cores, affinity_cpus=cores)
    spec = spec_of(*knobs, ranks=ranks, machine=machine)
    guesses = space.guesses(spec)
    assert len(set(guesses)) == len(guesses) in (1, 2)
    for guess in guesses:
        assert space.contains(spec.knobs, Setting(), guess)
        for each in spec.knobs[:2]:
            counts = [v for v in space.values(each.domain) if isinstance(v, int)]
            if counts:
                value = guess.as_dict()[each.name]
                assert isinstance(value, int)
                assert value <= max(1, cores // ranks, min(counts))


def test_other_knobs_are_guessed_at_their_default_or_first_value() -> None:
    batch = Knob("batch", IntRange(32, 64), Flag("-b"), default=48)
    start = Knob("start", Choice(("fork", "spawn")), Flag("-s"))
    spec = spec_of(batch, start)
    expected: dict[str, Value] = {"batch": 48, "start": "fork"}
    assert space.guesses(spec) == (Setting.of(expected),)
