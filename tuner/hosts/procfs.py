"""The accounts in ``/proc`` that several parts of the tool read: one reader for each line."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: What is read of a line of ``stat``, counted from the state on.
_COUNTS = (1, 9, 11, 12, 13, 14, 17, 19, 21)
_CPU = re.compile(rb"cpu(\d{1,6})")


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


def read(path: str) -> bytes:
    """The content of a small file; nothing where it is gone or not ours to read."""
    return _read(path, whole=True)


def line(path: str) -> bytes:
    """The first line of a file that has no more; nothing as for :func:`read`."""
    return _read(path, whole=False)


def _read(path: str, *, whole: bool) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.read(fd, 4096)  # a look reads hundreds: most are one short line
        while whole and (more := os.read(fd, 1 << 16)):
            found += more
        return found
    except OSError:  # it ended meanwhile
        return b""
    finally:
        os.close(fd)


def parse_stat(text: bytes) -> Stat | None:
    """A line of ``stat``; ``None`` where it is no such line (the process is gone)."""
    # The name stands in parentheses and may itself hold blanks and parentheses.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    number, _, name = head.partition(b" (")
    try:
        counts = [fields[index] for index in _COUNTS]
        if not all(map(_is_count, (number, *counts))):
            return None
        parent, faults, user, system, reaped, theirs, threads, started, pages = map(int, counts)
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
    )


def _is_count(field: bytes) -> bool:
    """Whether it is a whole number of 64 bits or so."""
    return field.isdigit() and len(field) <= 20


def stat(pid: int, proc: str = "/proc") -> Stat | None:
    """That of a process; ``None`` where there is none."""
    return parse_stat(line(f"{proc}/{pid}/stat"))


def parse_cpus(text: bytes, cpus: Collection[int]) -> list[CpuTimes]:
    """Those of these CPUs that ``/proc/stat`` tells of."""
    found = []
    for line in text.splitlines():
        name, *fields = line.split() or [b""]
        match = _CPU.fullmatch(name)
        if match is None or int(match[1]) not in cpus:
            continue
        # user nice system idle iowait irq softirq steal; guests are in user and nice already
        ticks = [int(field) for field in fields[:8] if _is_count(field)]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
        times = (user + nice, system + irq + softirq, steal, iowait, idle)
        found.append(CpuTimes(*(time / TICKS for time in times)))
    return found
