"""The one reader of ``/proc``: small files, accounts of processes and CPUs, control groups.

The supervisor imports it: nothing but the standard library, and little of that.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PF_KTHREAD = 0x00200000  # linux/sched.h


class Stat(NamedTuple):
    """A line of ``/proc/PID/stat`` or ``/proc/PID/task/TID/stat`` (proc(5))."""

    pid: int
    started: int  # clock ticks since boot
    parent: int
    name: str = ""
    state: str = "S"  # R, S, D, T (stopped), t (traced), Z …
    threads: int = 1
    kernel: bool = False  # a thread of the kernel
    major_faults: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    reaped_s: float = 0.0  # CPU time of the children it waited for, and of theirs
    resident_bytes: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """The id and the start, which no later process shares, even if it gets the same id."""
        return self.pid, self.started

    @property
    def cpu_s(self) -> float:
        """The CPU time of the process itself, s."""
        return self.user_s + self.system_s

    @property
    def dead(self) -> bool:
        """Whether it is a zombie that only waits to be reaped: none of its threads still runs."""
        return self.state in "ZXx" and self.threads <= 1


class CpuTimes(NamedTuple):
    """What CPUs did since boot, s; the time of guests is in ``user``."""

    user: float = 0.0
    system: float = 0.0  # with interrupts
    steal: float = 0.0
    iowait: float = 0.0
    idle: float = 0.0

    @property
    def busy(self) -> float:
        """The time in programs and in the kernel of this host, s."""
        return self.user + self.system


def try_read(path: str) -> bytes | None:
    """Return the content of a small file; ``None`` if it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        content = b""
        while more := os.read(fd, 1 << 16):
            content += more
        return content
    except OSError:  # it ended meanwhile
        return None
    finally:
        os.close(fd)


def read(path: str) -> bytes:
    """Return the content of a small file; nothing if it is gone or not ours to read."""
    return try_read(path) or b""


def names(folder: str) -> list[str]:
    """Return what is in a folder; nothing if it is gone or not ours to read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are enough, and cheaper
    except OSError:
        return []


def parse_stat(text: bytes) -> Stat | None:
    """Return a line of ``stat``; ``None`` if it is not such a line (the process is gone)."""
    # The name is in parentheses and may itself hold blanks and parentheses.
    head, _, tail = text.rpartition(b")")
    number, _, name = head.partition(b" (")
    fields = tail.split()  # field N of proc(5) stands at N - 3
    try:
        counts = [int(fields[index]) for index in (1, 6, 9, 11, 12, 13, 14, 17, 19, 21)]
        pid, state = int(number), fields[0].decode("ascii", "replace")
    except (IndexError, ValueError):
        return None
    parent, flags, faults, user, system, child_user, child_system, threads, started, pages = counts
    return Stat(
        pid=pid,
        started=started,
        parent=parent,
        name=name.decode("utf-8", "replace"),
        state=state,
        threads=threads,
        kernel=bool(flags & _PF_KTHREAD),
        major_faults=faults,
        user_s=user / TICKS,
        system_s=system / TICKS,
        reaped_s=(child_user + child_system) / TICKS,
        resident_bytes=pages * _PAGE,
    )


def stat(pid: int, proc: str = "/proc") -> Stat | None:
    """Return the ``stat`` of a process; ``None`` if there is no such process."""
    return parse_stat(read(f"{proc}/{pid}/stat"))


def processes(proc: str = "/proc") -> list[Stat]:
    """Return every process that this one can see."""
    pids = [int(name) for name in names(proc) if name.isdecimal()]
    return [process for pid in pids if (process := stat(pid, proc)) is not None]


def parse_cpus(text: bytes, cpus: Collection[int]) -> tuple[int, CpuTimes]:
    """Return how many of these CPUs ``/proc/stat`` lists, and the sum of what they did."""
    rows = []
    for line in text.splitlines():
        name, *fields = line.split() or [b""]
        number = name[3:]
        if name[:3] != b"cpu" or not number.isdigit() or int(number) not in cpus:
            continue
        # user nice system idle iowait irq softirq steal; guests are in user and nice already
        ticks = [int(field) for field in fields[:8] if field.isdigit()]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
        rows.append((user + nice, system + irq + softirq, steal, iowait, idle))
    return len(rows), CpuTimes(*(sum(times) / TICKS for times in zip(*rows, strict=True)))


def cgroup_folders(controller: str = "", process: str = "self", root: str = "/") -> Iterator[str]:
    """Yield a process's control group and all above it: of v2, or of this controller of v1.

    In a container the path may be that of the host, of which only the root of the mount is there:
    the walk upwards ends at it, with the limits of the container.
    """
    root = root.rstrip("/")
    for line in read(f"{root}/proc/{process}/cgroup").decode(errors="replace").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controller not in controllers.split(",") or "\0" in path:
            continue
        # v1 mounts each set of controllers in a folder of that name, with links for each;
        # v2 is the mount itself, or `unified` beside v1's.
        parts = [part for part in path.split("/") if part]
        for top in dict.fromkeys((controllers, controller) if controller else ("", "unified")):
            for depth in range(len(parts), -1, -1):
                if ".." not in parts[:depth]:
                    below = [part for part in (top, *parts[:depth]) if part]
                    yield "/".join([f"{root}/sys/fs/cgroup", *below])
