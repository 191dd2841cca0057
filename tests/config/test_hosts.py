"""Where the ranks run, as hostfiles, options and Slurm say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import MACHINE
from tuner.config.hosts import (
    Offer,
    expand_nodes,
    from_slurm,
    parse_hostfile,
    parse_hosts,
    place,
    smaller,
)
from tuner.config.spec import build_spec
from tuner.hosts.machine import HostFeatures
from tuner.model import LauncherInfo, Layout, StudySpec
from tuner.model.errors import UsageError
from tuner.store.identity import difference, identity

TWO = (Offer("h1", 2), Offer("h2", 2))
BARE = (Offer("h1", None), Offer("h2", None), Offer("h3", None))


def hostfile(text: str) -> list[tuple[str, int | None]]:
    return [(offer.name, offer.slots) for offer in parse_hostfile(text, "hosts")]


def test_a_hostfile_is_of_either_dialect() -> None:
    two: list[tuple[str, int | None]] = [("h1", 2), ("h2", 4)]
    assert hostfile("# two\nh1 slots=2 max_slots=4\n\n h2\tslots=4  # the second\n") == two
    assert hostfile("h1 slots = 2 max_slots= 4\nh2 slots =4") == two
    assert hostfile("h1 cpu=2\nh2 count=4") == two
    assert hostfile("h1:2\nh2:4\n") == two
    assert hostfile("h1 2\nh2 4\n") == two, "in short"
    assert hostfile("h1\nnode-2.example.org\n10.0.0.1\n") == [
        *(("h1", None), ("node-2.example.org", None), ("10.0.0.1", None)),
    ]


def test_a_name_in_several_lines_has_a_slot_a_line() -> None:
    assert hostfile("h1\nh1\nh2\n") == [("h1", 2), ("h2", 1)]
    assert hostfile("h1 slots=2\nh2 slots=1\nh1 slots=3\n") == [("h1", 5), ("h2", 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "hosts names no host"),
        ("h1 slots=2\nh2:2\n", "mixes two dialects: Open MPI's in line 1, MPICH's in line 2"),
        ("h1:2 slots=2\n", "mixes two dialects"),
        ("h1 slots=2\nh2\n", "h2 has no number of slots, and others have one"),
        ("h1 slots=0\n", "line 1: '0' is no number of slots"),
        ("h1:x\n", "line 1: 'x' is no number of slots"),
        ("h1\nh2 user=me\n", "line 2: 'user=me' is no number of slots"),
        ("me@h1\n", "line 1: 'me@h1' names a user"),
        ("-oProxyCommand=x\n", "line 1: '-oProxyCommand=x' looks like an option"),
        ("[2001:db8::3000:1] slots=2\n", "line 1: '[2001:db8::3000:1]' is an IPv6 address"),
        ("h1 slots=2\nfe80::1 slots=2\n", "line 2: 'fe80::1' is an IPv6 address"),
        ("h1;id\n", "'h1;id' is no host's name"),
    ],
)
def test_a_hostfile_that_is_wrong_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hostfile(text, "hosts")
    assert said in caught.value.message
    assert caught.value.hint


def test_hosts_are_typed_with_or_without_slots() -> None:
    assert parse_hosts("h1:4, h2:2") == (Offer("h1", 4), Offer("h2", 2))
    assert parse_hosts("h1,h2,h3") == BARE
    for wrong in ("", "h1,,h2", "h1:,h2", "h1:2,h2", "--h1", "[::1]:2"):
        with pytest.raises(UsageError, match="--hosts"):
            parse_hosts(wrong)


def test_slurm_says_its_nodes_and_their_tasks() -> None:
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[08-10,2],login"}
    names = ["n08", "n09", "n10", "n2", "login"]
    assert from_slurm(slurm) == tuple(Offer(name, None) for name in names)
    tasks = slurm | {"SLURM_TASKS_PER_NODE": "2(x3),4,1"}
    assert from_slurm(tasks) == tuple(map(Offer, names, (2, 2, 2, 4, 1)))
    assert from_slurm({"SLURM_JOB_NODELIST": "n1"}) == ()
    with pytest.raises(UsageError, match="names a node twice"):
        from_slurm(slurm | {"SLURM_JOB_NODELIST": "n[1-2,2]"})
    with pytest.raises(UsageError, match="is for 2 nodes, SLURM_JOB_NODELIST has 5"):
        from_slurm(slurm | {"SLURM_TASKS_PER_NODE": "2(x2)"})
    with pytest.raises(UsageError, match="SLURM_TASKS_PER_NODE='two' is not as Slurm writes it"):
        from_slurm(slurm | {"SLURM_TASKS_PER_NODE": "two"})


def test_nodes_are_expanded() -> None:
    assert expand_nodes("r[0-1]n[09-10]x", "") == ["r0n09x", "r0n10x", "r1n09x", "r1n10x"]
    for wrong in ("n[1", "n]1[", "n[]", "n[2-1]", "n[1-]", "n1,,n2", "n[1-999999999]"):
        with pytest.raises(UsageError):
            expand_nodes(wrong, "here")


def test_hosts_are_filled_in_their_order() -> None:
    assert place(TWO, source="") == Layout(4, ("h1", "h2"), (2, 2))
    assert place(TWO, source="", ranks=3) == Layout(3, ("h1", "h2"), (2, 1))
    assert place(TWO, source="", ranks=2) == Layout(2, ("h1",), (2,)), "h2 is not needed"
    assert place(TWO, source="", ranks=2, ppn=1) == Layout(2, ("h1", "h2"), (1, 1))
    assert place(TWO, source="", ppn=1) == Layout(2, ("h1", "h2"), (1, 1))


def test_hosts_without_slots_take_equal_shares() -> None:
    assert place(BARE, source="", ranks=4) == Layout(4, ("h1", "h2", "h3"), (2, 1, 1))
    assert place(BARE, source="", ranks=2) == Layout(2, ("h1", "h2"), (1, 1))
    assert place(BARE, source="", ppn=2) == Layout(6, ("h1", "h2", "h3"), (2, 2, 2))
    assert place(BARE, source="", ranks=3, ppn=2) == Layout(3, ("h1", "h2"), (2, 1))
    with pytest.raises(UsageError, match="--hosts gives no slots"):
        place(BARE, source="--hosts")


def test_more_ranks_than_slots_are_wanted_or_refused() -> None:
    with pytest.raises(UsageError, match="--mpi-procs 5, but X has 2 hosts with 4 slots in all"):
        place(TWO, source="X", ranks=5)
    with pytest.raises(UsageError, match=r"--ppn 3, but h1 has 2 slots \(X\)"):
        place(TWO, source="X", ppn=3)
    with pytest.raises(UsageError, match="--mpi-procs 7, but X has 2 hosts with --ppn 3"):
        place(TWO, source="X", ranks=7, ppn=3, oversubscribe=True)
    assert place(TWO, source="", ranks=5, oversubscribe=True).by_host == (4, 1)
    assert place(TWO, source="", ppn=3, oversubscribe=True).by_host == (3, 3)


# --- what is typed -------------------------------------------------------------------------

OPENMPI = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11")


def spec_of(
    folder: Path, environ: dict[str, str] | None = None, *, words: Any = (), **options: Any
) -> StudySpec:
    return build_spec(
        command=("/bin/true", *words),
        options={"objective": "wall", **options},
        environ=environ or {},
        cwd=folder,
        machine=MACHINE,
        features=HostFeatures({}),
        find=lambda *_: OPENMPI,
    )


def test_a_study_runs_on_the_hosts_of_options_and_slurm(tmp_path: Path) -> None:
    (tmp_path / "my hosts").write_text("h1:4\nh2:4\n", "utf-8-sig")  # as Windows writes it
    eight = Layout(8, ("h1", "h2"), (4, 4))
    spec = spec_of(tmp_path, hostfile="my hosts", ssh="ssh -F 'config'")
    assert spec.layout == eight
    assert spec.launcher.ssh == ("ssh", "-F", "config")
    assert spec.name == "true-n8-h2"
    assert spec_of(tmp_path, hosts="h1:4,h2:4").layout == eight
    assert spec_of(tmp_path, hosts="h1,h2", mpi_procs=8, ppn=4).layout == eight
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "h[1-2]", "SLURM_TASKS_PER_NODE": "4(x2)"}
    assert spec_of(tmp_path, slurm).layout == eight
    assert spec_of(tmp_path, slurm, mpi_procs=2).layout == Layout(2, ("h1",), (2,))


def test_without_hosts_a_study_runs_here(tmp_path: Path) -> None:
    here = Layout(2)
    assert spec_of(tmp_path).layout == here
    assert spec_of(tmp_path, ppn=2).layout == here
    assert spec_of(tmp_path, hosts="localhost:2").layout == here
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": MACHINE.hostname}
    assert spec_of(tmp_path, slurm).layout == here
    with pytest.raises(UsageError, match="--mpi-procs 4 with --ppn 2 needs other hosts"):
        spec_of(tmp_path, mpi_procs=4, ppn=2)


def test_a_command_says_which_hosts_there_are(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, hosts_from="printf 'h1 4\\nh2 4\\nh3 4\\n'", mpi_procs=8)
    assert spec.layout == Layout(8, ("h1", "h2"), (4, 4))
    other = spec_of(tmp_path, hosts_from="printf 'h7 4\\nh2 4\\n'", mpi_procs=8)
    assert difference(identity(spec), identity(other)) == [], "hosts come and go"
    fewer = spec_of(tmp_path, hosts_from="echo h1 8")
    assert difference(identity(spec), identity(fewer)) == ["hosts: any:4 any:4 -> any:8"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sh -c 'echo no credentials >&2; exit 7'", "exit code 7: no credentials"),
        ("./none", "--hosts-from ./none: No such file or directory"),
        ("true", "--hosts-from true names no host"),
        ("echo h1 four", "line 1: 'four' is no number of slots"),
    ],
)
def test_a_command_that_says_no_hosts_is_refused(tmp_path: Path, command: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec_of(tmp_path, hosts_from=command)
    assert said in caught.value.message
    assert caught.value.hint


def test_hosts_that_a_layout_leaves_free_are_spares(tmp_path: Path) -> None:
    named = "h1:2,h2:2,h3:1,h4:4"
    assert spec_of(tmp_path, hosts=named, mpi_procs=4).spares == ("h4",), "h3 has no room"
    assert spec_of(tmp_path, hosts=named, ppn=1).spares == ()
    assert spec_of(tmp_path, hosts="h1,h2,h3", mpi_procs=4, ppn=2).spares == ("h3",)


def test_hosts_that_cannot_be_had_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--hosts and --hostfile both name hosts"):
        spec_of(tmp_path, hosts="h1", hostfile="x")
    with pytest.raises(UsageError, match="--hostfile and --hosts-from both name hosts"):
        spec_of(tmp_path, hostfile="x", hosts_from="true")
    with pytest.raises(UsageError, match="--oversubscribe-hosts does not go with --hosts-from"):
        spec_of(tmp_path, hosts_from="echo h1 1", mpi_procs=2, more_ranks_than_slots=True)
    with pytest.raises(UsageError, match="--wait-for-children waits on this host alone, and --ho"):
        spec_of(tmp_path, hosts="h1:1,h2:1", wait_for_children=True)
    with pytest.raises(UsageError, match="--hostfile none cannot be read: No such file"):
        spec_of(tmp_path, hostfile="none")


def test_smaller_layouts_are_on_fewer_hosts_or_have_fewer_ranks() -> None:
    def sizes(layout: Layout, *ppns: int) -> list[tuple[int, int]]:
        return [(len(each.hosts), each.ranks) for each in smaller(layout, ppns)]

    hosts = tuple(f"h{number}" for number in range(1, 12))
    large = Layout(22, hosts, (2,) * 11)
    assert sizes(large) == [(1, 2), (2, 4), (3, 6), (4, 8), (8, 16), (11, 22)]
    uneven = Layout(6, ("h1", "h2"), (4, 2))
    assert [each.by_host for each in smaller(uneven)] == [(4,), (4, 2)]
    assert sizes(uneven, 1, 2) == [(1, 1), (1, 2), (2, 2), (2, 4)]
    assert sizes(Layout(6)) == [(1, 1), (1, 2), (1, 4), (1, 6)]
    assert sizes(Layout(6), 2, 3) == [(1, 2), (1, 3)]
