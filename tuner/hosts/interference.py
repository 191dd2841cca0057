"""What else the host did, beside a launch or before a study: two looks at it, compared.

``/proc/stat`` counts the CPU time of the whole host, this process's own accounts that of
``tune`` and of every child it waited for; what is left is the others'. A file that is missing or
foreign is never an error: what it would tell then counts as nothing.
"""

from __future__ import annotations

import os
import pwd
import re
import resource
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts import procfs
from tuner.model import Load, Machine, wording

#: A sum of all CPU states that is off the clock by more than this share is not the host's own
#: (a container's made-up ``/proc/stat``): nothing is read from it.
OFF = 0.2

#: A process that used less than this, in cores, is not named.
NAMED_CORES = 0.05

#: Who takes the time that a hypervisor gives to other guests.
HYPERVISOR = "other virtual machines on this hardware"

_ROOT = Path("/")

#: How long the look takes, s.
LOOK_S = 0.5

#: What others may use, in cores, before it is told.
QUIET_CORES = 0.25

#: A clock that may not reach this share of what the CPU could do is told.
FULL_CLOCK = 0.9


@dataclass(frozen=True)
class HostSnapshot:
    """What the counters stood at; all of them only grow."""

    at_s: float  # monotonic
    busy_s: float  # CPU time of the CPUs that may be used
    stolen_s: float  # by the hypervisor
    all_s: float  # idle time with it
    cpus: int  # as many of them are told of
    ours_s: float  # of this process, the children it waited for, and the processes named
    throttled_s: float
    hot: int  # events
    swapped_bytes: int
    table: tuple[procfs.Stat, ...]  # without the processes named


def look(
    *,
    root: Path = _ROOT,
    cpus: Collection[int] | None = None,
    ours_s: float | None = None,
    at_s: float | None = None,
    members: Collection[int] = (),
) -> HostSnapshot:
    """Read the counters: a few milliseconds, more where there are thousands of processes.

    Args:
        root: The tree that holds ``proc`` and ``sys``.
        cpus: Those that count; ``None``: all that this process may use.
        ours_s: CPU time of this process and its children; ``None`` asks the kernel.
        at_s: The moment; ``None``: now.
        members: Processes that are ours too, though they have not ended. What they waited for
            counts with them; once they are waited for, the kernel counts them with us.
    """
    if ours_s is None:
        whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        usages = [resource.getrusage(who) for who in whose]
        ours_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    stats = procfs.processes(str(root / "proc"))
    mine = [stat for stat in stats if stat.pid in members]
    counted = os.sched_getaffinity(0) if cpus is None else cpus
    told = procfs.parse_cpus(procfs.read(str(root / "proc/stat")), counted)
    return HostSnapshot(
        at_s=time.monotonic() if at_s is None else at_s,
        busy_s=sum(cpu.busy for cpu in told),
        stolen_s=sum(cpu.steal for cpu in told),
        all_s=sum(cpu.all for cpu in told),
        cpus=len(told),
        ours_s=ours_s + sum(stat.cpu_s + stat.reaped_s for stat in mine),
        throttled_s=max(_throttled_s(root), default=0.0),
        hot=sum(_throttle_counts(root)),
        swapped_bytes=_swapped_bytes(root),
        table=tuple(stat for stat in stats if stat.pid not in members),
    )


def between(before: HostSnapshot, after: HostSnapshot, *, me: int | None = None) -> Load:
    """What others did from one look to the next.

    Between the looks children may have come and gone; those that are alive at one must have been
    named to it: then whatever process is there is another's, unless it is this one (``me``).
    """
    wall_s = after.at_s - before.at_s
    if wall_s <= 0:
        return Load(0.0)
    stolen = max(0.0, after.stolen_s - before.stolen_s) / wall_s
    others = stolen
    if is_the_hosts(after.all_s - before.all_s, wall_s, after.cpus):
        busy_s = after.busy_s - before.busy_s
        others += max(0.0, busy_s - (after.ours_s - before.ours_s)) / wall_s
    else:
        others = stolen = 0.0
    return Load(
        others_cores=round(others, 3),
        busiest=_busiest(before, after, wall_s, stolen, os.getpid() if me is None else me),
        throttled_s=round(max(0.0, after.throttled_s - before.throttled_s), 3),
        hot=after.hot > before.hot,
        swapped_bytes=max(0, after.swapped_bytes - before.swapped_bytes),
    )


class Neighbourhood:
    """What else runs beside a launch, or beside a part of one.

    Args:
        members: The processes that it has now; none before its start and after its end.
    """

    def __init__(self, members: Collection[int] = ()) -> None:
        self._before = look(members=members)

    def load(self, members: Collection[int] = ()) -> Load:
        """What others did since then; ``members`` are the launch's processes that are alive."""
        return between(self._before, look(members=members))


def is_the_hosts(grown_s: float, wall_s: float, cpus: int) -> bool:
    """Whether CPU times are the host's: all states together have grown as the clock has."""
    clock_s = cpus * wall_s
    return cpus > 0 and abs(grown_s - clock_s) <= OFF * clock_s


def _busiest(
    before: HostSnapshot, after: HostSnapshot, wall_s: float, stolen: float, me: int
) -> str:
    """The other process that used the most CPU, by name; empty if none is worth it."""
    used = {(row.pid, row.started): row.cpu_s for row in before.table}
    most_s, row = max(
        ((r.cpu_s - used.get((r.pid, r.started), 0.0), r) for r in after.table if r.pid != me),
        key=lambda pair: pair[0],
        default=(0.0, None),
    )
    if stolen >= NAMED_CORES and stolen * wall_s >= most_s:
        return HYPERVISOR
    if row is None or most_s / wall_s < NAMED_CORES:
        return ""
    return f"pid {row.pid} ({row.name}{_user(row.pid)})"


def _user(pid: int) -> str:
    """``, user bob``; empty if the process is this user's own, or has ended."""
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return ""
    if uid == os.getuid():
        return ""
    try:
        return f", user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f", user {uid}"


# --- before a study ----------------------------------------------------------------------


@dataclass(frozen=True)
class Before:
    """What the machine does before anything is launched; clocks in kHz, 0: not known."""

    load: Load
    load_average: float = 0.0  # of the last minute: processes that run or want to
    clock_khz: int = 0  # the lowest that a CPU is allowed
    full_khz: int = 0  # what that CPU could do


def before(*, root: Path = _ROOT, pause: Callable[[float], None] = time.sleep) -> Before:
    """Look at the machine for half a second."""
    first = look()
    pause(LOOK_S)
    load = between(first, look())
    clock_khz, full_khz = min(_clocks(root), key=lambda pair: pair[0] / pair[1], default=(0, 0))
    try:
        load_average = os.getloadavg()[0]
    except OSError:
        load_average = 0.0
    return Before(load, load_average, clock_khz, full_khz)


def complaint(seen: Before, machine: Machine) -> str:
    """What makes the times of the launches to come doubtful; empty on a quiet machine."""
    load, cpus = seen.load, machine.affinity_cpus
    said = []
    if load.others_cores >= QUIET_CORES:
        said.append(
            f"other processes use {wording.cores(load.others_cores, cpus)}"
            f"{wording.most_of_it(load)} (load average {seen.load_average:.1f})"
        )
    if load.throttled_s > 0:
        said.append("the CPU quota of its cgroup is used up")
    if load.hot:
        said.append("CPUs are slowed down for their temperature")
    if load.swapped_bytes:
        said.append("memory is swapped")
    if seen.clock_khz < FULL_CLOCK * seen.full_khz:
        clock, full = seen.clock_khz / 1e6, seen.full_khz / 1e6
        said.append(f"a CPU is held at {clock:.1f} of {full:.1f} GHz")
    return f"this machine is not quiet: {'; '.join(said)}" if said else ""


def _clocks(root: Path) -> Iterator[tuple[int, int]]:
    """(most allowed, most possible) clock of each CPU, kHz; virtual ones seldom tell."""
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"):
        names = ("scaling_max_freq", "cpuinfo_max_freq")
        texts = [_read(folder / name).strip() for name in names]
        if all(text.isdecimal() and int(text) for text in texts):
            yield int(texts[0]), int(texts[1])


# --- reading -----------------------------------------------------------------------------


def _read(path: Path) -> str:
    """The text of a file of the kernel's; empty if it is missing or unreadable."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _throttled_s(root: Path) -> Iterator[float]:
    """How long the quota of each cgroup held CPUs back: v2 says it in us, v1 in ns."""
    for controller, key, per_s in (("", "throttled_usec", 1e6), ("cpu", "throttled_time", 1e9)):
        for folder in procfs.cgroup_folders(controller, root=str(root)):
            found = re.search(rf"^{key} (\d+)$", _read(Path(folder, "cpu.stat")), re.MULTILINE)
            yield int(found.group(1)) / per_s if found else 0.0


def _throttle_counts(root: Path) -> Iterator[int]:
    """How often each CPU was slowed down for its temperature (Intel counts it)."""
    folder = root / "sys/devices/system/cpu"
    for path in folder.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"):
        if path.name in {"core_throttle_count", "package_throttle_count"}:
            text = _read(path).strip()
            yield int(text) if text.isdecimal() else 0


def _swapped_bytes(root: Path) -> int:
    pages = re.findall(r"^pswp(?:in|out) (\d+)$", _read(root / "proc/vmstat"), re.MULTILINE)
    return sum(int(number) for number in pages) * os.sysconf("SC_PAGE_SIZE")
