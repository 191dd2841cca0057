"""The counters of the host, and what it did between two looks at them: CPUs, waits, network."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.procfs import TICKS, CpuTimes

#: The resources that tasks wait for, as ``/proc/pressure`` names them.
PRESSURES = ("io", "memory")

#: The sum of all CPU states may differ from the time by the clock by this share. If it differs by
#: more, ``/proc/stat`` is not the host's own (some containers make one up).
MOST_CLOCK_ERROR = 0.2

_SOME_TASK_WAITED_US = re.compile(rb"^some .*\btotal=(\d{1,19})\b", re.MULTILINE)
_RUNNABLE = re.compile(rb"^procs_running (\d{1,9})$", re.MULTILINE)
_GROUP_TIMES = re.compile(rb"^(usage_usec|throttled_usec|throttled_time) (\d{1,19})$", re.MULTILINE)


class Quota(NamedTuple):
    """What a control group with a quota used, and how long its CPUs were held back, s."""

    used_s: float | None  # None: another controller counts it (cgroup v1)
    held_s: float


def parse_quota(text: bytes) -> Quota | None:
    """Return what a control group's ``cpu.stat`` says of its quota; ``None`` if it has none."""
    values = {name: int(number) for name, number in _GROUP_TIMES.findall(text)}
    if b"throttled_time" in values:  # v1, in ns
        return Quota(None, values[b"throttled_time"] / 1e9)
    if b"throttled_usec" not in values:
        return None
    used = values.get(b"usage_usec")
    return Quota(None if used is None else used / 1e6, values[b"throttled_usec"] / 1e6)


def parse_interfaces(text: bytes) -> dict[str, int]:
    """Return the bytes that each interface of ``/proc/net/dev`` moved, those of ``lo`` once."""
    moved_bytes = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdigit() and fields[8].isdigit():
            interface = name.strip().decode("utf-8", "replace")
            sent = 0 if interface == "lo" else int(fields[8][:20])  # 64 bits have 20 digits
            moved_bytes[interface] = int(fields[0][:20]) + sent
    return moved_bytes


class HostCounters(NamedTuple):
    """What the counters stood at; what could not be read is missing or ``None``."""

    at_s: float  # monotonic
    cpus: int = 0  # how many of them `cpu` sums up
    cpu: CpuTimes = CpuTimes()
    runnable: int | None = None  # threads that run or wait for a CPU
    quotas: Mapping[str, Quota] = {}  # by the file of a control group
    waited_s: Mapping[str, float] = {}  # by each of PRESSURES: how long some task has waited for it
    interfaces: Mapping[str, int] = {}  # bytes
    own_s: float = 0.0  # CPU time of this process


class CounterReader:
    """Reads the counters of this host, of the CPUs that this process may use by default.

    ``root`` is the tree that holds ``proc`` and ``sys``.
    """

    def __init__(self, root: Path = Path("/"), cpus: Collection[int] | None = None) -> None:
        self._root = root
        self._cpus = os.sched_getaffinity(0) if cpus is None else cpus
        self._quotas: dict[str, None] = {}

    def watch_groups(self, process: str) -> None:
        """Read the control groups of this process, and those above, too, from now on."""
        for controller in ("", "cpu"):
            for folder in procfs.cgroup_folders(controller, process, str(self._root)):
                path = f"{folder}/cpu.stat"
                if parse_quota(procfs.read(path)) is not None:
                    self._quotas[path] = None

    def look(self) -> HostCounters:
        """Return what all counters stand at now; this takes some 0.2 ms."""
        stat = self._read("proc/stat")
        cpus, cpu = procfs.parse_cpus(stat, self._cpus)
        runnable = _RUNNABLE.search(stat)
        pressures = {name: self._read(f"proc/pressure/{name}") for name in PRESSURES}
        waits = {name: _SOME_TASK_WAITED_US.search(text) for name, text in pressures.items()}
        quotas = {path: parse_quota(procfs.read(path)) for path in self._quotas}
        return HostCounters(
            at_s=time.monotonic(),
            cpus=cpus,
            cpu=cpu,
            runnable=int(runnable[1]) if runnable else None,
            quotas={path: quota for path, quota in quotas.items() if quota is not None},
            waited_s={name: int(match[1]) / 1e6 for name, match in waits.items() if match},
            interfaces=parse_interfaces(self._read("proc/net/dev")),
            own_s=time.process_time(),
        )

    def _read(self, name: str) -> bytes:
        return procfs.read(f"{self._root}/{name}")


def is_of_host(before: HostCounters, after: HostCounters) -> bool:
    """Return whether CPU times are the host's own: all states together grew as the clock did."""
    clock_s = after.cpus * (after.at_s - before.at_s)
    error_s = abs(sum(after.cpu) - sum(before.cpu) - clock_s)
    cut_s = after.cpus * len(after.cpu) / TICKS  # each state of each CPU is cut to whole ticks
    return before.cpus == after.cpus > 0 and error_s <= MOST_CLOCK_ERROR * clock_s + cut_s


def host_row(before: HostCounters, after: HostCounters, trial_s: float) -> dict[str, float | None]:
    """Return the columns of `HOST_COLUMNS` for one interval, but for those of GPUs.

    ``trial_s`` is the CPU time of the trial's processes in the interval.
    """
    interval_s = after.at_s - before.at_s
    moved_bytes = [
        max(0, count - before.interfaces[name])
        for name, count in after.interfaces.items()
        if name in before.interfaces
    ]
    row: dict[str, float | None] = {
        "runnable_threads": None if after.runnable is None else float(after.runnable),
        "throttled_share": _throttled(before, after, trial_s),
        "network_bytes_per_s": max(moved_bytes) / interval_s if moved_bytes else None,
    }
    has_cpu_times = 0 < before.cpus == after.cpus
    grown_s = {
        name: getattr(after.cpu, name) - getattr(before.cpu, name)
        for name in ("user", "system", "steal", "iowait", "busy")
    }
    # The CPU time of neither the trial nor this process.
    grown_s["others"] = grown_s.pop("busy") - trial_s - (after.own_s - before.own_s)
    for name, cpu_s in grown_s.items():
        row[f"{name}_cores"] = max(0.0, cpu_s) / interval_s if has_cpu_times else None
    for name in PRESSURES:
        has_pressure = name in before.waited_s and name in after.waited_s
        waited_s = after.waited_s[name] - before.waited_s[name] if has_pressure else 0.0
        share = min(1.0, max(0.0, waited_s / interval_s))
        row[f"{name}_pressure_share"] = share if has_pressure else None
    return row


def _throttled(before: HostCounters, after: HostCounters, trial_s: float) -> float | None:
    """Return the share of CPU time that a quota held back, the largest of all control groups."""
    shares = []
    for path, end in after.quotas.items():
        if (start := before.quotas.get(path)) is None:
            continue
        used_s = trial_s
        if start.used_s is not None and end.used_s is not None:
            used_s = max(0.0, end.used_s - start.used_s)
        held_s = max(0.0, end.held_s - start.held_s)
        shares.append(held_s / (held_s + used_s) if held_s else 0.0)
    return max(shares, default=None)
