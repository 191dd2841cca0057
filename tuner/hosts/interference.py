"""What other processes did on the host, beside a launch or before a study: two snapshots compared.

``/proc/stat`` counts the CPU time of the whole host, this process's own accounts that of
``tune`` and of every child it waited for; the rest is the CPU time of others. A file that is
missing or foreign is never an error: what it counts is then taken for nothing.
"""

from __future__ import annotations

import os
import pwd
import re
import resource
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.counters import CounterReader, HostCounters, is_of_host
from tuner.model import Load, Machine, wording

#: A process that used less than this, in cores, is not named.
NAMED_CORES = 0.05

#: The name for whoever takes the time that a hypervisor gives to other guests.
HYPERVISOR = "other virtual machines on this hardware"

#: How long the look before a study takes, s.
LOOK_S = 0.5

#: Other processes may use this much, in cores, before a note says so.
QUIET_CORES = 0.25

#: How often a CPU, or all of a package, was slowed down for its temperature (Intel counts it).
_HOT = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/{}_throttle_count"


class HostSnapshot(NamedTuple):
    """What the counters stood at; all of them only grow."""

    counters: HostCounters
    ours_s: float  # CPU time of this process, the children it waited for, and those of the launch
    hot: int = 0  # how often a CPU or a package was slowed down
    swapped_bytes: int = 0
    table: tuple[procfs.Stat, ...] = ()  # the other processes


def host_snapshot(
    members: Collection[int] = (), *, root: Path = Path("/"), cpus: Collection[int] | None = None
) -> HostSnapshot:
    """Read the CPU time, throttling and swap counters of the host, in a few milliseconds.

    ``members`` are the live processes of the launch: their CPU time, with that of the children that
    they have waited for, counts as ours. Once they end, the kernel counts it with this process.
    """
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    stats = procfs.processes(f"{root}/proc")
    host = CounterReader(root, cpus)
    host.watch_groups("self")
    heat = [path for name in ("core", "package") for path in root.glob(_HOT.format(name))]
    counts = [procfs.read(str(path)).strip() for path in heat]
    pages = re.findall(rb"^pswp(?:in|out) (\d+)$", procfs.read(f"{root}/proc/vmstat"), re.MULTILINE)
    return HostSnapshot(
        counters=host.look(),
        ours_s=sum(usage.ru_utime + usage.ru_stime for usage in usages)
        + sum(stat.cpu_s + stat.reaped_s for stat in stats if stat.pid in members),
        hot=sum(int(count) for count in counts if count.isdigit()),
        swapped_bytes=sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE"),
        table=tuple(stat for stat in stats if stat.pid not in {*members, os.getpid()}),
    )


def load_between(before: HostSnapshot, after: HostSnapshot) -> Load:
    """Return what other processes did from one snapshot to the next.

    Each snapshot must have been given the processes of the launch that were alive at its moment:
    all others count as other people's.
    """
    start, end = before.counters, after.counters
    wall_s = end.at_s - start.at_s
    if wall_s <= 0:
        return Load(others_cores=0.0)
    others_cores = stolen_cores = 0.0
    if is_of_host(start, end):
        stolen_cores = max(0.0, end.cpu.steal - start.cpu.steal) / wall_s
        busy_s = end.cpu.busy - start.cpu.busy
        others_cores = stolen_cores + max(0.0, busy_s - (after.ours_s - before.ours_s)) / wall_s
    held_s = [
        quota.held_s - start.quotas[path].held_s
        for path, quota in end.quotas.items()
        if path in start.quotas
    ]
    return Load(
        others_cores=round(others_cores, 3),
        busiest=_busiest(before, after, wall_s, stolen_cores),
        throttled_s=round(max([0.0, *held_s]), 3),
        hot=after.hot > before.hot,
        swapped_bytes=max(0, after.swapped_bytes - before.swapped_bytes),
    )


def _busiest(before: HostSnapshot, after: HostSnapshot, wall_s: float, stolen_cores: float) -> str:
    """Return the name of what else used the most CPU; empty if nothing used `NAMED_CORES`."""
    cpu_s = {row.key: row.cpu_s for row in before.table}
    grown = [(row.cpu_s - cpu_s.get(row.key, 0.0), row) for row in after.table]
    most_s, process = max(grown, key=lambda pair: pair[0], default=(0.0, None))
    if stolen_cores >= NAMED_CORES and stolen_cores * wall_s >= most_s:
        return HYPERVISOR
    if process is None or most_s / wall_s < NAMED_CORES:
        return ""
    user = ""
    try:
        uid = Path(f"/proc/{process.pid}").stat().st_uid
        if uid != os.getuid():
            user = f", user {pwd.getpwuid(uid).pw_name}"
    except (OSError, KeyError):  # it has ended, or its user has no name
        pass
    return f"pid {process.pid} ({process.name}{user})"


def load_now() -> Load:
    """Return what other processes do on this host, after a look of `LOOK_S` seconds."""
    first = host_snapshot()
    time.sleep(LOOK_S)
    return load_between(first, host_snapshot())


def complaint(load: Load, machine: Machine) -> str:
    """Say what makes the times of the launches to come doubtful; empty on a quiet machine."""
    reasons = []
    if load.others_cores >= QUIET_CORES:
        cores = wording.cores(load.others_cores, machine.affinity_cpus)
        reasons.append(f"other processes use {cores}{wording.most_of_it(load)}")
    if load.throttled_s > 0:
        reasons.append("the CPU quota of its cgroup is used up")
    if load.hot:
        reasons.append("CPUs are slowed down for their temperature")
    if load.swapped_bytes:
        reasons.append("memory is swapped")
    return f"this machine is not quiet: {'; '.join(reasons)}" if reasons else ""
