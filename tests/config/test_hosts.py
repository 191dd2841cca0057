"""Where the ranks run, as hostfiles, options and Slurm say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_spec import MACHINE, build
from tuner.config.hosts import Offer, from_slurm, parse_hostfile, parse_hosts, place, smaller
from tuner.model import Layout
from tuner.model.errors import UsageError

TWO = (Offer("h1", 2), Offer("h2", 2))
BARE = (Offer("h1", None), Offer("h2", None), Offer("h3", None))
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[08-10,2],login"}
NAMES = ["n08", "n09", "n10", "n2", "login"]


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("# two\nh1 slots=2 max_slots=2\n\n h2\tslots=2  # the second\n", TWO),
        ("h1 slots = 2 max_slots= 4\nh2 slots =2", TWO),
        ("h1:2\nh2:2\n", TWO),
        ("h1 2\nh2 2\n", TWO),
        ("h1\nh2\nh3\n", BARE),
        ("h1\nh1\nh2\n", (Offer("h1", 2), Offer("h2", 1))),
    ],
)
def test_a_hostfile_is_of_either_dialect(text: str, offers: tuple[Offer, ...]) -> None:
    assert parse_hostfile(text, "hosts") == offers


def test_hosts_and_slurms_nodes_are_with_or_without_slots() -> None:
    assert parse_hosts("h1:2, h2:2") == TWO
    assert parse_hosts("h1,h2,h3") == BARE
    assert from_slurm(SLURM) == tuple(Offer(name, None) for name in NAMES)
    tasks = SLURM | {"SLURM_TASKS_PER_NODE": "2(x3),4,1"}
    assert from_slurm(tasks) == tuple(map(Offer, NAMES, (2, 2, 2, 4, 1)))
    assert from_slurm({"SLURM_JOB_NODELIST": "n1"}) == ()
    racks = [offer.name for offer in from_slurm(SLURM | {"SLURM_JOB_NODELIST": "r[0-1]n[09-10]x"})]
    assert racks == ["r0n09x", "r0n10x", "r1n09x", "r1n10x"]


def hostfile(text: str) -> Callable[[], object]:
    return lambda: parse_hostfile(text, "hosts")


def placed(offers: tuple[Offer, ...] = TWO, **more: Any) -> Callable[[], object]:
    return lambda: place(offers, source="X", **more)


def study(**options: Any) -> Callable[[], object]:
    return lambda: build("/bin/true", objective="wall", **options)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (hostfile(""), "hosts names no host"),
        (hostfile("h1 slots=2\nh2\n"), "h2 has no number of slots, and others have one"),
        (hostfile("h1\nh2 user=me\n"), "line 2: 'user=me' is no number of slots"),
        (hostfile("me@h1\n"), "line 1: 'me@h1' is no host's name"),
        (lambda: parse_hosts(""), "--hosts '': '' is no host's name"),
        (lambda: from_slurm(SLURM | {"SLURM_TASKS_PER_NODE": "2(x2)"}), "is for 2 nodes, SLURM_"),
        (placed(ranks=5), "--mpi-procs 5, but X has 2 hosts with 4 slots in all"),
        (placed(ppn=3), "3 ranks on a host, but h1 has 2 slots (X)"),
        (placed(BARE), "X gives no slots"),
        (study(hosts_from="sh -c 'echo gone >&2; exit 7'"), "exit code 7: gone"),
        (study(mpi_procs=4, ppn=2), "--mpi-procs 4 with --ppn 2 needs other hosts"),
        (study(hosts_from="echo h1", more_ranks_than_slots=True), "does not go with --hosts-from"),
        (study(hosts="h1", hostfile="x"), "--hosts and --hostfile both name hosts"),
        (study(hosts="h1:1,h2:1", wait_for_children=True), "--wait-for-children waits on this"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(read: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read()
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("offers", "options", "by_host"),
    [
        (TWO, {}, (2, 2)),
        (TWO, {"ranks": 3}, (2, 1)),
        (TWO, {"ranks": 2}, (2,)),
        (TWO, {"ppn": 1}, (1, 1)),
        (TWO, {"ranks": 5, "oversubscribe": True}, (4, 1)),
        (BARE, {"ranks": 4}, (2, 1, 1)),
        (BARE, {"ppn": 2}, (2, 2, 2)),
    ],
)
def test_hosts_are_filled_in_their_order(
    offers: tuple[Offer, ...], options: dict[str, Any], by_host: tuple[int, ...]
) -> None:
    names = tuple(offer.name for offer in offers)[: len(by_host)]
    assert place(offers, source="", **options) == Layout(sum(by_host), names, by_host)


EIGHT = Layout(8, ("h1", "h2"), (4, 4))
TASKS = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h[1-2]", "SLURM_TASKS_PER_NODE": "4(x2)"}
HERE = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": MACHINE.hostname}


def with_tasks(tasks: str) -> dict[str, str]:
    return HERE | {"SLURM_TASKS_PER_NODE": tasks}


@pytest.mark.parametrize(
    ("environ", "options", "layout", "spares"),
    [
        ({}, {"hostfile": "my hosts"}, EIGHT, ()),
        ({}, {"hosts": "h1:4,h2:4"}, EIGHT, ()),
        (TASKS, {}, EIGHT, ()),
        (TASKS, {"mpi_procs": 2}, Layout(2, ("h1",), (2,)), ("h2",)),
        ({}, {"hosts_from": "printf 'h1 4\\nh2 4\\nh3 4\\n'", "mpi_procs": 8}, EIGHT, ("h3",)),
        ({}, {}, Layout(2), ()),
        ({}, {"hosts": "localhost:2"}, Layout(2), ()),
        (HERE, {}, Layout(2), ()),
        (with_tasks("4"), {}, Layout(4), ()),
        (with_tasks("8"), {}, Layout(8), ()),
        (with_tasks("1"), {"mpi_procs": 2}, Layout(2, room=1), ()),
    ],
)
def test_a_study_runs_on_the_hosts_of_options_and_slurm(
    tmp_path: Path,
    environ: dict[str, str],
    options: dict[str, Any],
    layout: Layout,
    spares: tuple[str, ...],
) -> None:
    (tmp_path / "my hosts").write_text("h1:4\nh2:4\n", "utf-8-sig")  # as Windows writes it
    own: dict[str, Any] = {"objective": "wall", "ssh": "ssh -F 'config'", **options}
    spec = build("/bin/true", cwd=tmp_path, environ=environ, **own)
    assert spec.layout == replace(layout, room=layout.room or MACHINE.physical_cores)
    assert spec.spares == spares
    assert spec.launcher.ssh == ("ssh", "-F", "config")


@pytest.mark.parametrize(
    ("layout", "ppns", "by_host"),
    [
        (Layout(22, tuple(f"h{n}" for n in range(11)), (2,) * 11), (),
         [(2,) * n for n in (1, 2, 3, 4, 8, 11)]),
        (Layout(6, ("h1", "h2"), (4, 2)), (), [(4,), (4, 2)]),
        (Layout(6, ("h1", "h2"), (4, 2)), (1, 2), [(1,), (2,), (1, 1), (2, 2)]),
        (Layout(6), (2, 3), [(2,), (3,)]),
    ],
)  # fmt: skip
def test_smaller_layouts_are_on_fewer_hosts_or_have_fewer_ranks(
    layout: Layout, ppns: tuple[int, ...], by_host: list[tuple[int, ...]]
) -> None:
    made = [tuple(ranks for _, ranks in part.slots) for part in smaller(layout, ppns)]
    assert made == by_host
