"""Where the CPU time of processes goes that come, go, and are waited for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.host_files import plant, stat_line
from tuner.hosts.observe import Member
from tuner.hosts.procfs import TICKS, Stat
from tuner.hosts.telemetry.processes import ProcessAccount, rank_row, reaped_s, snapshot, used
from tuner.model import RANK_COLUMNS


def account(
    pid: int,
    user_s: float = 0.0,
    system_s: float = 0.0,
    reaped: float = 0.0,
    waited_s: dict[int, float] | None = None,
    started: int = 100,
) -> tuple[tuple[int, int], ProcessAccount]:
    stat = Stat(pid, started, 1, user_s=user_s, system_s=system_s, reaped_s=reaped)
    return (pid, started), ProcessAccount(0, stat, waited_s or {})


def test_a_rank_and_its_child() -> None:
    before = dict([account(10, 1.0, 0.5), account(11, 2.0)])
    after = dict(
        [account(10, 2.0, 1.0, waited_s={10: 0.5, 12: 0.5}), account(11, 3.0, waited_s={11: 2.0})]
    )
    row = rank_row(before, after, 2.0)
    assert row.keys() == RANK_COLUMNS.keys()
    assert row == {
        "own_user_cores": 0.5,
        "own_system_cores": 0.25,
        "own_queue_threads": 0.5,
        "children_cores": 0.5,
        "children_queue_threads": 1.0,
    }


def test_a_new_process_of_an_old_id_counts_whole() -> None:
    assert used(dict([account(10, 50.0)]), dict([account(10, 1.0, started=300)])).user_s == 1.0


def test_every_second_is_counted_once_also_of_a_child_that_ends() -> None:
    looks = [
        dict[tuple[int, int], ProcessAccount](),
        dict([account(1, 1.0), account(2, 3.0)]),
        dict([account(1, 1.5, reaped=4.0)]),  # the child has used a second more
        dict([account(1, 1.5, reaped=9.0)]),  # another one came and went
    ]
    counted_s = [used(*pair).user_s + reaped_s(*pair) for pair in pairwise(looks)]
    assert counted_s == [4.0, 1.5, 5.0]


def test_the_accounts_are_read(tmp_path: Path) -> None:
    pid, supervisor = 1 << 23, (1 << 23) + 9
    rank = Member(pid, 5, 0)
    assert snapshot([rank], str(tmp_path)) == {}, "a process that is gone is passed over"
    waits = {1: "5000 2000000000 3", 2: "1 500000000 1", 3: "odd", 4: "1 2"}
    plant(
        tmp_path,
        {
            f"{pid}/stat": stat_line(pid, started=5, name="a (b) c", parent=supervisor, ticks=50),
            f"{supervisor}/stat": stat_line(supervisor, started=4, ticks=7),
            **{f"{pid}/task/{n}/schedstat": text for n, text in waits.items()},
        },
    )
    accounts = snapshot([rank], str(tmp_path))
    assert accounts.keys() == {(pid, 5), (supervisor, 4)}
    assert accounts[pid, 5].waited_s == {1: 2.0, 2: 0.5}
    assert used({}, accounts) == pytest.approx((57 / TICKS, 0.0, 2.5))
