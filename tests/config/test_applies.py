"""Which knobs can be set on a host, and what is written for their values there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.config.applicability import TargetHost, knob_on_host
from tuner.hosts.machine import HostFeatures
from tuner.knobs import knob, names
from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.model import UNSET, Choice, LauncherInfo, Layout, Machine, Setting, StudySpec, Value

MACHINE = Machine("node1", "Some CPU", 32, 16, 32, None, 2, 64 << 30)
OPENMPI = LauncherInfo("openmpi", "/mpi/bin/mpirun", "5.0.11")
INTELMPI = LauncherInfo("intelmpi", "/intel/bin/mpirun", "2021.13")
FEATURES = HostFeatures(
    allocators={"jemalloc": "/lib/libjemalloc.so.2", "tcmalloc": "/lib/libtcmalloc.so.4"},
    huge_pages="madvise",
    glibc=(2, 36),
    sockets=2,
    has_numactl=True,
)
HOST = TargetHost(MACHINE, Layout(4), OPENMPI, FEATURES)
HOSTS = replace(
    HOST,
    layout=Layout(4, ("h1", "h2"), (2, 2)),
    features=replace(FEATURES, interfaces=("eth0", "ib0")),
)
UNEVEN = replace(
    HOSTS, layout=Layout(3, ("h1", "h2"), (2, 1)), launcher=replace(OPENMPI, kind="mpich")
)
SMALL = replace(HOST, machine=replace(MACHINE, numa_nodes=1), features=replace(FEATURES, sockets=1))
WITH_OWN = replace(
    HOST,
    features=replace(
        FEATURES, preload="/a.so:/lib/libtcmalloc.so.4 /b.so", tunables="glibc.malloc.check=1"
    ),
)


def test_what_applies_depends_on_gpus_and_hosts() -> None:
    def out(host: TargetHost) -> set[str]:
        return {name for name in names() if knob_on_host(knob(name), host).why_not}

    gpu = {"pin_memory", "fp16_gradients", "double_buffering", "gpu_bind"}
    gpu |= {name for name in names() if name.startswith("nccl")}
    other_mpis = {"mpich_allreduce", "impi_allreduce", "impi_fabrics"}
    elsewhere = {"interface", "rank_by", "ompi_pml", "ompi_tcp_links", *other_mpis}
    assert out(HOST) == gpu | elsewhere
    with_gpu = replace(MACHINE, gpus=("H100",) * 4)
    assert out(replace(HOST, machine=with_gpu)) == elsewhere
    assert out(replace(HOSTS, machine=with_gpu)) == other_mpis


@pytest.mark.parametrize(
    ("row", "value", "host", "variables"),
    [
        ("allocator", "jemalloc", WITH_OWN, {"LD_PRELOAD": "/lib/libjemalloc.so.2:/a.so:/b.so"}),
        ("allocator", "glibc", WITH_OWN, {"LD_PRELOAD": "/a.so:/b.so"}),
        ("huge_pages", "on", WITH_OWN,
         {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}),
        ("ompi_allreduce", "ring", HOST, {"OMPI_MCA_coll_tuned_allreduce_algorithm": "4",
                                          "OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}),
        ("ompi_btl", "sm", HOST, {"OMPI_MCA_btl": "self,sm"}),
        ("ompi_btl", "sm", replace(HOST, launcher=replace(OPENMPI, version="4.1.8")),
         {"OMPI_MCA_btl": "self,vader"}),
        ("impi_allreduce", "ring", replace(HOST, launcher=INTELMPI),
         {"I_MPI_ADJUST_ALLREDUCE": "8"}),
    ],
)  # fmt: skip
def test_the_users_own_variables_stay_and_versions_have_their_words(
    row: str, value: str, host: TargetHost, variables: dict[str, str]
) -> None:
    here = knob_on_host(knob(row), host).knob
    spec = StudySpec("s", ("p",), host.launcher, host.layout, host.machine, (here,))
    assert render.assignments(spec, Setting.of({row: value}))[1] == variables


@pytest.mark.parametrize(
    ("row", "host", "own", "why", "possible"),
    [
        ("huge_pages", replace(HOST, features=replace(FEATURES, huge_pages="always")), (),
         "here: always", False),
        ("interface", replace(HOSTS, features=FEATURES), (), "do not share two networks", True),
        ("interface", HOSTS, ("eth9",), "eth9 is no interface of a network that all hosts", False),
        ("rank_by", UNEVEN, (), "as many ranks on each host", False),
        ("mpich_allreduce", replace(HOST, launcher=INTELMPI), (), "this is Intel MPI", False),
        ("bind_to", replace(HOST, layout=Layout(16)), (), "", True),
        ("mem_bind", SMALL, (), "there is one NUMA node here", False),
        ("mem_bind", replace(HOST, features=replace(FEATURES, has_numactl=False)), (),
         "numactl is not installed here", False),
        ("mem_bind", HOST, ("local", "far"), "it cannot be 'far'", False),
        ("cores_per_rank", HOST, (), "", True),
        ("cores_per_rank", HOST, (1, 8), "4 ranks with 8 each need more than the 16 cores", False),
        ("cores_per_rank", replace(HOST, layout=Layout(16)), (), "confined to one core", True),
        ("cores_per_rank", replace(HOST, layout=Layout(17)), (), "17 ranks with 1 each need",
         False),
        ("cores_per_rank", replace(HOST, launcher=replace(OPENMPI, kind="torchrun")), (),
         "torchrun has no such option", False),
    ],
)  # fmt: skip
def test_why_a_knob_does_not_apply(
    row: str, host: TargetHost, own: tuple[Value, ...], why: str, possible: bool
) -> None:
    row_ = replace(knob(row), domain=Choice(own)) if own else knob(row)
    here = knob_on_host(row_, host, has_own_values=bool(own))
    assert why in here.why_not and bool(why) == bool(here.why_not) == bool(here.hint)
    assert here.possible is possible


@pytest.mark.parametrize(
    ("kind", "words"),
    [("srun", "--distribution cyclic"), ("openmpi", "--rank-by node"), ("mpich", "-ppn 1"),
     ("intelmpi", "-ppn 1")],
)  # fmt: skip
def test_each_launcher_has_words_for_the_order_of_ranks(kind: str, words: str) -> None:
    host = replace(HOSTS, launcher=replace(OPENMPI, kind=kind))
    assert knob_on_host(knob("rank_by"), host).knob.domain == Choice(("slot", "node"))
    argv = launcher_for(kind).argv(host.launcher, host.layout, {"rank_by": "node"}, ("p",))
    assert f" {words} " in " ".join(argv)


@pytest.mark.parametrize(
    ("kind", "layout", "own", "kept", "more"),
    [
        ("openmpi", Layout(2), (), (UNSET, "none"), {}),
        ("openmpi", Layout(4), (), (UNSET, "none", "core"), {}),
        ("openmpi", Layout(32, room=4), (), (UNSET, "core"), {"why": "confined to"}),
        ("mpich", Layout(4), (), (UNSET, "core"), {"why": "confined to one core"}),
        ("intelmpi", Layout(4), (), (UNSET, "none", "core"), {}),
        ("intelmpi", Layout(1), (), (UNSET, "core"), {"why": "one"}),
        # What the user named is never cut; what the launcher does by itself changes nothing.
        ("openmpi", Layout(4), ("none", "numa"), ("none", "numa"), {}),
        ("mpich", Layout(4), ("none", "core"), ("none", "core"), {"neutral": "none", "why": "one"}),
    ],
)
def test_binding_is_a_knob_where_it_can_differ_from_what_the_launcher_does(
    kind: str, layout: Layout, own: tuple[Value, ...], kept: tuple[Value, ...], more: dict[str, Any]
) -> None:
    host = replace(SMALL, layout=layout, launcher=replace(OPENMPI, kind=kind))
    row = replace(knob("bind_to"), domain=Choice(own)) if own else knob("bind_to")
    here = knob_on_host(row, host, has_own_values=bool(own))
    assert here.knob.domain == Choice(kept)
    assert more.get("why", "") in here.why_not and ("why" in more) == bool(here.why_not)
    assert here.knob.neutral == more.get("neutral", here.knob.neutral)


@pytest.mark.parametrize(("host", "values"), [(HOST, ("shm", "ofi")), (HOSTS, ("ofi",))])
def test_ranks_on_several_hosts_need_more_than_shared_memory(
    host: TargetHost, values: tuple[str, ...]
) -> None:
    here = knob_on_host(knob("impi_fabrics"), replace(host, launcher=INTELMPI))
    assert here.knob.domain == Choice((UNSET, *values)) and not here.why_not
