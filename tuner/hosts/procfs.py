"""The accounts in ``/proc``: one reader for each line. The supervisor uses it too: no imports."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: What is read of a line of ``stat``, counted from the state on.
_COUNTS = (1, 6, 9, 11, 12, 13, 14, 17, 19, 21)
_PF_KTHREAD = 0x00200000  # linux/sched.h


class Stat(NamedTuple):
    """A line of ``/proc/PID/stat`` or ``/proc/PID/task/TID/stat`` (proc(5))."""

    pid: int
    name: str
    state: str
    parent: int
    major_faults: int
    user_s: float
    system_s: float
    reaped_s: float  # CPU time of the children it waited for, and of theirs
    threads: int
    started: int  # clock ticks since boot: tells a reused pid from the old process
    resident_bytes: int
    kernel: bool = False  # a thread of the kernel

    @property
    def cpu_s(self) -> float:
        """CPU time of the process itself."""
        return self.user_s + self.system_s


class CpuTimes(NamedTuple):
    """What a CPU did since boot, s; guests are in user."""

    user: float
    system: float  # with interrupts
    steal: float
    iowait: float
    idle: float

    @property
    def busy(self) -> float:
        """By programs and the kernel of this host."""
        return self.user + self.system

    @property
    def all(self) -> float:
        """Every state: as long as the CPU has been there."""
        return sum(self)


def content(path: str, *, whole: bool = True) -> bytes | None:
    """The content of a small file, or its first line; ``None`` if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.read(fd, 4096)  # a look reads hundreds: most are one short line
        while whole and (more := os.read(fd, 1 << 16)):
            found += more
        return found
    except OSError:  # it ended meanwhile
        return None
    finally:
        os.close(fd)


def read(path: str) -> bytes:
    """The content of a small file; nothing if it is gone or not ours to read."""
    return content(path) or b""


def line(path: str) -> bytes:
    """The first line of a file that has no more; nothing as for :func:`read`."""
    return content(path, whole=False) or b""


def parse_stat(text: bytes) -> Stat | None:
    """A line of ``stat``; ``None`` if it is no such line (the process is gone)."""
    # The name stands in parentheses and may itself hold blanks and parentheses.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    number, _, name = head.partition(b" (")
    try:
        counts = [fields[index] for index in _COUNTS]
        if not all(map(_is_count, (number, *counts))):
            return None
        parent, flags, faults, user, system, reaped, theirs, threads, started, pages = map(
            int, counts
        )
    except IndexError:
        return None
    return Stat(
        pid=int(number),
        name=name.decode("utf-8", "replace"),
        state=fields[0].decode("ascii", "replace"),
        parent=parent,
        major_faults=faults,
        user_s=user / TICKS,
        system_s=system / TICKS,
        reaped_s=(reaped + theirs) / TICKS,
        threads=threads,
        started=started,
        resident_bytes=pages * _PAGE,
        kernel=bool(flags & _PF_KTHREAD),
    )


def _is_count(field: bytes) -> bool:
    """Whether it is a whole number of 64 bits or so."""
    return field.isdigit() and len(field) <= 20


def stat(pid: int, proc: str = "/proc") -> Stat | None:
    """That of a process; ``None`` if there is none."""
    return parse_stat(line(f"{proc}/{pid}/stat"))


def parse_cpus(text: bytes, cpus: Collection[int]) -> list[CpuTimes]:
    """Those of these CPUs that ``/proc/stat`` tells of."""
    found = []
    for line in text.splitlines():
        name, *fields = line.split() or [b""]
        number = name.removeprefix(b"cpu")
        if number == name or not number.isdigit() or int(number[:9]) not in cpus:
            continue
        # user nice system idle iowait irq softirq steal; guests are in user and nice already
        ticks = [int(field) for field in fields[:8] if _is_count(field)]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
        times = (user + nice, system + irq + softirq, steal, iowait, idle)
        found.append(CpuTimes(*(time / TICKS for time in times)))
    return found
