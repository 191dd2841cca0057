"""Which knobs can be set on a host, and what is written for their values there."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tuner.config.applicability import TargetHost, answer
from tuner.hosts.machine import HostFeatures
from tuner.knobs import knob, names
from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.model import (
    UNSET,
    Choice,
    Knob,
    LauncherInfo,
    LauncherOption,
    Layout,
    Machine,
    Setting,
    StudySpec,
    Value,
)

MACHINE = Machine("node1", "Some CPU", 32, 16, 32, None, 2, 64 << 30)
OPENMPI = LauncherInfo("openmpi", "/mpi/bin/mpirun", "5.0.11")
FOUND = HostFeatures(
    allocators={"jemalloc": "/lib/libjemalloc.so.2", "tcmalloc": "/lib/libtcmalloc.so.4"},
    huge_pages="madvise",
    glibc=(2, 36),
    sockets=2,
)
SHARED = replace(FOUND, interfaces=("eth0", "ib0"))
HOST = TargetHost(MACHINE, Layout(4), OPENMPI, FOUND)


def env(row: str, value: str, host: TargetHost = HOST) -> tuple[tuple[str, ...], dict[str, str]]:
    """What the wrapper does for a value: variables to remove, and to set."""
    knob_ = answer(knob(row), host).knob
    spec = StudySpec("s", ("p",), host.launcher, host.layout, host.machine, (knob_,))
    return render.assignments(spec, Setting.of({row: value}))


def test_on_a_large_host_all_but_the_gpu_and_the_other_mpi_apply() -> None:
    out = {name for name in names() if answer(knob(name), HOST).why_not}
    gpu = {"pin_memory", "fp16_gradients", "double_buffering"}
    elsewhere = {"interface", "rank_by", "ompi_pml", "ompi_tcp_links", "mpich_allreduce"}
    assert out == gpu | elsewhere | {n for n in names() if n.startswith("nccl")}
    with_gpu = replace(HOST, machine=replace(MACHINE, gpus=("H100",) * 4))
    assert {n for n in names() if answer(knob(n), with_gpu).why_not} == elsewhere
    on_hosts = replace(with_gpu, layout=Layout(4, ("h1", "h2"), (2, 2)), features=SHARED)
    assert {n for n in names() if answer(knob(n), on_hosts).why_not} == {"mpich_allreduce"}


def test_an_interface_is_chosen_if_hosts_share_several_networks() -> None:
    hosts = replace(HOST, layout=Layout(2, ("h1", "h2"), (1, 1)), features=SHARED)
    assert answer(knob("interface"), hosts).knob.domain == Choice(("unset", "eth0", "ib0"))
    _, variables = env("interface", "ib0", hosts)
    wanted = {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME"}
    assert wanted | {"NCCL_SOCKET_IFNAME"} < variables.keys()
    assert {*variables.values()} == {"ib0"}
    one = replace(hosts, features=replace(FOUND, interfaces=("eth0",)))
    assert "do not share two networks" in answer(knob("interface"), one).why_not
    own = replace(knob("interface"), domain=Choice(("ib0",)))
    assert "ib0 is no interface of a network that all hosts" in answer(own, one, own=True).why_not


def test_the_order_of_ranks_is_in_the_words_of_each_launcher() -> None:
    even, uneven = (Layout(sum(n), ("h1", "h2"), n) for n in ((2, 2), (2, 1)))
    words = {
        "srun": ("--distribution", "cyclic"),
        "openmpi": ("--rank-by", "node"),
        "mpich": ("-ppn", "1"),
    }
    for kind, argv in words.items():
        host = replace(HOST, layout=even, launcher=replace(OPENMPI, kind=kind))
        assert answer(knob("rank_by"), host).knob.domain == Choice(("slot", "node"))
        made = launcher_for(kind).argv(host.launcher, even, {"rank_by": "node"}, ("p",))
        assert argv in itertools.pairwise(made)
    got = answer(knob("rank_by"), replace(host, layout=uneven))
    assert "as many ranks on each host" in got.why_not and not got.possible


def test_the_users_own_preload_and_tunables_stay() -> None:
    found = replace(
        FOUND, preload="/a.so:/lib/libtcmalloc.so.4 /b.so", tunables="glibc.malloc.check=1"
    )
    host = replace(HOST, features=found)
    assert env("allocator", "jemalloc", host)[1] == {
        "LD_PRELOAD": "/lib/libjemalloc.so.2:/a.so:/b.so"
    }
    assert env("allocator", "glibc", host)[1] == {"LD_PRELOAD": "/a.so:/b.so"}
    assert env("allocator", "glibc") == (("LD_PRELOAD",), {})
    assert env("huge_pages", "on", host)[1] == {
        "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
    }
    assert env("huge_pages", "off") == (("GLIBC_TUNABLES",), {})


@pytest.mark.parametrize(("version", "shared"), [("5.0.11", "self,sm"), ("4.1.8", "self,vader")])
def test_shared_memory_is_called_otherwise_before_open_mpi_5(version: str, shared: str) -> None:
    host = replace(HOST, launcher=replace(OPENMPI, version=version))
    assert env("ompi_btl", "sm", host)[1] == {"OMPI_MCA_btl": shared}
    assert env("ompi_btl", "no_ofi", host)[1] == {"OMPI_MCA_btl": "^ofi"}


@pytest.mark.parametrize(
    "features",
    [
        replace(FOUND, huge_pages="always"),
        replace(FOUND, huge_pages="never"),
        replace(FOUND, huge_pages=""),
        replace(FOUND, glibc=(2, 31)),
    ],
)
def test_huge_pages(features: HostFeatures) -> None:
    here = answer(knob("huge_pages"), replace(HOST, features=features))
    assert here.why_not and here.hint and not here.possible


@pytest.mark.parametrize(
    ("kind", "layout", "values", "why"),
    [
        ("openmpi", Layout(1), (UNSET, "core"), "confined to one core"),
        ("openmpi", Layout(2), (UNSET, "none"), ""),
        ("openmpi", Layout(4), (UNSET, "none", "core"), ""),
        ("openmpi", Layout(32, oversubscribed=True), (UNSET, "core"), "confined to one core"),
        ("mpich", Layout(4), (UNSET, "core"), "confined to one core"),
        ("torchrun", Layout(4), (UNSET,), "torchrun has no such option"),
    ],
)
def test_binding_is_a_knob_where_it_can_differ_from_what_the_launcher_does(
    kind: str, layout: Layout, values: tuple[Value, ...], why: str
) -> None:
    small = replace(
        HOST, machine=replace(MACHINE, numa_nodes=1), features=replace(FOUND, sockets=1)
    )
    host = replace(small, layout=layout, launcher=replace(OPENMPI, kind=kind))
    got = answer(knob("bind_to"), host)
    assert got.knob.domain == Choice(values)
    assert why in got.why_not and bool(why) == bool(got.why_not)


def test_places_that_are_one_are_no_choice() -> None:
    small = replace(
        HOST, machine=replace(MACHINE, numa_nodes=1), features=replace(FOUND, sockets=1)
    )
    own = answer(replace(knob("bind_to"), domain=Choice(("none", "numa"))), small, own=True)
    assert own.knob.domain == Choice(("none", "numa")), "what the user named is never cut"
    mpich = replace(small, launcher=replace(OPENMPI, kind="mpich"))
    own = answer(replace(knob("bind_to"), domain=Choice(("none", "core"))), mpich, own=True)
    assert own.knob.neutral == "none", "as MPICH does it"
    assert answer(knob("bind_to"), replace(HOST, layout=Layout(16))).possible


def test_nothing_but_the_default_is_no_knob() -> None:
    only = Knob("x", Choice((UNSET,)), LauncherOption("bind_to"), neutral=UNSET)
    assert answer(only, HOST).why_not == "nothing but the default can be set here"
