"""What the kernel says of a host, read and parsed: CPUs, control groups, pressure, interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.machine import cgroup_folders

#: What may be waited for, as ``/proc/pressure`` names it.
PRESSURES = ("cpu", "io", "memory")

_SOME = re.compile(rb"^some .*\btotal=(\d{1,19})\b", re.MULTILINE)
_RUNNABLE = re.compile(rb"^procs_running (\d{1,9})$", re.MULTILINE)
_SWITCHES = re.compile(rb"^(?:non)?voluntary_ctxt_switches:\s*(\d{1,19})$", re.MULTILINE)
_ACCOUNT = re.compile(rb"^(usage_usec|throttled_usec|throttled_time) (\d{1,19})$", re.MULTILINE)


class Wait(NamedTuple):
    """A line of ``schedstat``: what a thread had of the CPUs so far."""

    run_s: float
    queue_s: float  # ready to run, but another had the CPU
    slices: int  # how often it got one


class Quota(NamedTuple):
    """What a control group with a quota used, and how long its CPUs were held back, s."""

    used_s: float | None  # None: another controller counts it (cgroup v1)
    held_s: float


def parse_wait(line: bytes) -> Wait | None:
    """``/proc/PID/task/TID/schedstat``; ``None`` where it is no such line."""
    fields = line.split()
    if len(fields) != 3 or not all(field.isdigit() and len(field) <= 20 for field in fields):
        return None
    return Wait(int(fields[0]) / 1e9, int(fields[1]) / 1e9, int(fields[2]))


def parse_switches(status: bytes) -> tuple[int, int] | None:
    """Voluntary and involuntary switches of a thread, of its ``status``."""
    found = [int(number) for number in _SWITCHES.findall(status)]
    return (found[0], found[1]) if len(found) == 2 else None


def parse_pressure(text: bytes) -> float | None:
    """How long some task has waited so far, s, of a file of PSI."""
    found = _SOME.search(text)
    return int(found[1]) / 1e6 if found else None


def parse_runnable(text: bytes) -> int | None:
    """The threads that run or wait for a CPU, of ``/proc/stat``."""
    found = _RUNNABLE.search(text)
    return int(found[1]) if found else None


def parse_quota(text: bytes) -> Quota | None:
    """A control group's ``cpu.stat``; ``None`` where it says nothing of a quota."""
    values = {name: int(number) for name, number in _ACCOUNT.findall(text)}
    if b"throttled_time" in values:  # v1, in ns
        return Quota(None, values[b"throttled_time"] / 1e9)
    if b"throttled_usec" not in values:
        return None
    used = values.get(b"usage_usec")
    return Quota(None if used is None else used / 1e6, values[b"throttled_usec"] / 1e6)


def parse_interfaces(text: bytes) -> dict[str, int]:
    """Bytes that each interface of ``/proc/net/dev`` moved; what goes over ``lo`` counts once."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdigit() and fields[8].isdigit():
            interface = name.strip().decode("utf-8", "replace")
            sent = 0 if interface == "lo" else int(fields[8][:20])
            found[interface] = int(fields[0][:20]) + sent
    return found


def quota_files(root: Path, pids: Iterable[int]) -> tuple[str, ...]:
    """The accounts of every control group that these processes are in, and of those above."""
    return tuple(dict.fromkeys(_quota_files(root, pids)))


def _quota_files(root: Path, pids: Iterable[int]) -> Iterator[str]:
    for pid in pids:
        for controller in ("", "cpu"):
            for folder in cgroup_folders(root, controller, process=str(pid)):
                path = str(folder / "cpu.stat")
                if parse_quota(procfs.read(path)) is not None:
                    yield path
