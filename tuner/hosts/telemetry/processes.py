"""What the processes of a trial used between two looks at them.

A process is known by its id and the moment it started, so that a reused id is another one. All
that a new one has used falls into the interval in which it is first seen. One that has ended and
was waited for is in the accounts of its parent: nothing of it is lost or counted twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.observe import Member
from tuner.hosts.procfs import Stat


def parse_wait(line: bytes) -> tuple[float, float] | None:
    """Seconds that a thread ran, and that it was ready but another had the CPU.

    ``None`` if it is not a line of ``/proc/PID/task/TID/schedstat``.
    """
    fields = line.split()
    if len(fields) != 3 or not all(field.isdigit() and len(field) <= 20 for field in fields):
        return None
    return int(fields[0]) / 1e9, int(fields[1]) / 1e9


class Seen(NamedTuple):
    """A process at one look."""

    rank: int | None  # None: the launcher's
    stat: Stat
    tasks: Mapping[int, float]  # what each thread has waited for a CPU, s


#: The processes of a look by (id, start).
ProcessSnapshot = Mapping[tuple[int, int], Seen]


class Use(NamedTuple):
    """What was used in an interval."""

    user_s: float = 0.0
    system_s: float = 0.0
    queue_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """User and system."""
        return self.user_s + self.system_s


def look(
    members: Iterable[Member], before: ProcessSnapshot, proc: str = "/proc"
) -> ProcessSnapshot:
    """Read the accounts of these processes, and of those that started them.

    Args:
        members: The processes that were found last; those that are gone are passed over.
        before: The look before: a thread that has not run since keeps its account of then.
        proc: The mounted procfs; another folder in tests.
    """
    snapshot: dict[tuple[int, int], Seen] = {}
    for member in members:
        key = (member.pid, member.started)
        stat = procfs.stat(member.pid, proc)
        if stat is not None and stat.started == member.started:
            tasks = {} if member.rank is None else _tasks(stat, before.get(key), proc)
            snapshot[key] = Seen(member.rank, stat, tasks)
    # The supervisor: what the launcher leaves behind is waited for by it.
    parents = {process.stat.parent for process in snapshot.values()}
    for pid in parents - {pid for pid, _ in snapshot} - {0, 1, os.getpid()}:
        stat = procfs.stat(pid, proc)
        if stat is not None:
            snapshot[pid, stat.started] = Seen(None, stat, {})
    return snapshot


def _tasks(stat: Stat, before: Seen | None, proc: str) -> Mapping[int, float]:
    """What a process's threads have waited, as far as it has run."""
    if stat.state != "R" and stat.cpu_s == (before.stat.cpu_s if before else 0.0):
        return before.tasks if before else {}
    folder = f"{proc}/{stat.pid}/task"
    threads = procfs.names(folder)
    waits = {int(name): parse_wait(procfs.read(f"{folder}/{name}/schedstat")) for name in threads}
    return {thread: wait[1] for thread, wait in waits.items() if wait is not None}


def used(before: ProcessSnapshot, after: ProcessSnapshot) -> Use:
    """What these processes used themselves; an account that was set back counts as nothing."""
    user_s = system_s = queue_s = 0.0
    for key, process in after.items():
        then = before.get(key)
        user_s += max(0.0, process.stat.user_s - (then.stat.user_s if then else 0.0))
        system_s += max(0.0, process.stat.system_s - (then.stat.system_s if then else 0.0))
        waited = then.tasks if then else {}
        queue_s += sum(max(0.0, s - waited.get(thread, 0.0)) for thread, s in process.tasks.items())
    return Use(user_s, system_s, queue_s)


def reaped_s(before: ProcessSnapshot, after: ProcessSnapshot) -> float:
    """CPU time of processes that have ended since, as far as it was not known before."""
    grown_s = sum(
        process.stat.reaped_s - (before[key].stat.reaped_s if key in before else 0.0)
        for key, process in after.items()
    )
    known_s = sum(
        process.stat.cpu_s + process.stat.reaped_s
        for key, process in before.items()
        if key not in after
    )
    return max(0.0, grown_s - known_s)


def by_rank(look_: ProcessSnapshot) -> dict[int, dict[tuple[int, int], Seen]]:
    """The processes of each rank."""
    groups: dict[int, dict[tuple[int, int], Seen]] = {}
    for key, process in look_.items():
        if process.rank is not None:
            groups.setdefault(process.rank, {})[key] = process
    return groups


def root(look_: ProcessSnapshot) -> tuple[int, int]:
    """A rank's own process among its processes: the oldest, which the others inherit from."""
    return min(look_, key=lambda key: (key[1], key[0]))


def rank_row(
    before: ProcessSnapshot, after: ProcessSnapshot, interval_s: float, *, waits: bool = True
) -> dict[str, float | None]:
    """The columns of `RANK_COLUMNS` for one interval.

    Args:
        before: The rank's processes at its begin.
        after: Those at its end, at least one.
        interval_s: Its length.
        waits: Whether the kernel counts what threads wait for a CPU.
    """
    own_key = root(after)
    own = used(before, {own_key: after[own_key]})
    children = used(before, {key: process for key, process in after.items() if key != own_key})
    children_s = children.cpu_s + reaped_s(before, after)
    rates = {
        "own_user_cores": own.user_s,
        "own_system_cores": own.system_s,
        "children_cores": children_s,
    }
    waiting = {
        "own_queue_threads": own.queue_s,
        "children_queue_threads": children.queue_s,
        "runnable_threads": own.cpu_s + own.queue_s + children_s + children.queue_s,
    }
    return {
        **{name: total / interval_s for name, total in rates.items()},
        **{name: total / interval_s if waits else None for name, total in waiting.items()},
        "threads": float(sum(process.stat.threads for process in after.values())),
        "memory_bytes": float(sum(process.stat.resident_bytes for process in after.values())),
    }
