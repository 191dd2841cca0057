"""What the processes of a trial used between two looks at them.

A process is identified by its id and the moment it started, so that a reused id is another one. All
that a new process has used counts for the interval of its first look. A process that has ended and
was waited for is in the accounts of its parent: nothing of it is lost or counted twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.observe import Member
from tuner.hosts.procfs import Stat


class ProcessAccount(NamedTuple):
    """A process at one look."""

    rank: int | None  # None: the launcher's
    stat: Stat
    waited_s: Mapping[int, float]  # for a CPU, by thread


#: The processes of a look by (id, start).
ProcessSnapshot = Mapping[tuple[int, int], ProcessAccount]


class Use(NamedTuple):
    """The CPU time that processes used in an interval, and how long they waited for a CPU."""

    user_s: float
    system_s: float
    queue_s: float


def snapshot(members: Iterable[Member], proc: str = "/proc") -> ProcessSnapshot:
    """Read what these processes, and the ones that started them, have used so far.

    Processes that have ended are left out. ``proc`` is the mounted procfs.
    """
    accounts: dict[tuple[int, int], ProcessAccount] = {}
    for member in members:
        stat = procfs.stat(member.pid, proc)
        if stat is not None and stat.started == member.started:
            waits = {} if member.rank is None else _cpu_waits(stat.pid, proc)
            accounts[member.pid, member.started] = ProcessAccount(member.rank, stat, waits)
    # One parent is the supervisor, which waits for what the launcher leaves behind.
    parents = {process.stat.parent for process in accounts.values()}
    for pid in parents - {pid for pid, _ in accounts} - {0, 1, os.getpid()}:
        stat = procfs.stat(pid, proc)
        if stat is not None:
            accounts[pid, stat.started] = ProcessAccount(None, stat, {})
    return accounts


def _cpu_waits(pid: int, proc: str) -> dict[int, float]:
    """Return for how long each thread was ready while another had the CPU, s."""
    waits, folder = {}, f"{proc}/{pid}/task"
    for thread in procfs.names(folder):
        fields = procfs.read(f"{folder}/{thread}/schedstat").split()
        if len(fields) == 3 and fields[1].isdigit():
            waits[int(thread)] = int(fields[1]) / 1e9
    return waits


def used(before: ProcessSnapshot, after: ProcessSnapshot) -> Use:
    """Return what these processes used themselves; an account that was set back counts as 0."""
    user_s = system_s = queue_s = 0.0
    for key, process in after.items():
        old = before.get(key)
        user_s += max(0.0, process.stat.user_s - (old.stat.user_s if old else 0.0))
        system_s += max(0.0, process.stat.system_s - (old.stat.system_s if old else 0.0))
        waits = old.waited_s if old else {}
        queue_s += sum(max(0.0, s - waits.get(n, 0.0)) for n, s in process.waited_s.items())
    return Use(user_s, system_s, queue_s)


def reaped_s(before: ProcessSnapshot, after: ProcessSnapshot) -> float:
    """Return the CPU time of processes that have ended since, without what ``before`` has of it."""
    grown_s = sum(
        process.stat.reaped_s - (before[key].stat.reaped_s if key in before else 0.0)
        for key, process in after.items()
    )
    counted_s = sum(
        process.stat.cpu_s + process.stat.reaped_s
        for key, process in before.items()
        if key not in after
    )
    return max(0.0, grown_s - counted_s)


def by_rank(snapshot: ProcessSnapshot) -> dict[int, dict[tuple[int, int], ProcessAccount]]:
    """Return the processes of each rank."""
    groups: dict[int, dict[tuple[int, int], ProcessAccount]] = {}
    for key, process in snapshot.items():
        if process.rank is not None:
            groups.setdefault(process.rank, {})[key] = process
    return groups


def root(snapshot: ProcessSnapshot) -> tuple[int, int]:
    """Return a rank's own process among its processes: the oldest, which started the others."""
    return min(snapshot, key=lambda key: (key[1], key[0]))


def rank_row(
    before: ProcessSnapshot, after: ProcessSnapshot, interval_s: float
) -> dict[str, float | None]:
    """Return the columns of `RANK_COLUMNS` for one interval.

    ``before`` are the rank's processes at its begin, ``after`` those at its end, at least one.
    """
    root_key = root(after)
    children = {key: process for key, process in after.items() if key != root_key}
    own_use, children_use = used(before, {root_key: after[root_key]}), used(before, children)
    totals_s = {
        "own_user_cores": own_use.user_s,
        "own_system_cores": own_use.system_s,
        "own_queue_threads": own_use.queue_s,
        "children_cores": children_use.user_s + children_use.system_s + reaped_s(before, after),
        "children_queue_threads": children_use.queue_s,
    }
    return {name: total_s / interval_s for name, total_s in totals_s.items()}
