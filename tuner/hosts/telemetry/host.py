"""What the kernel says of a host, and what it did between two looks at it: CPUs, waits, network."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.interference import is_the_hosts
from tuner.hosts.procfs import CpuTimes

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
    """``/proc/PID/task/TID/schedstat``; ``None`` if it is no such line."""
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
    """A control group's ``cpu.stat``; ``None`` if it says nothing of a quota."""
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


#: What is made of ``/proc/stat``.
CPU_COLUMNS = ("user_cores", "system_cores", "steal_cores", "iowait_cores", "others_cores")


class HostCounters(NamedTuple):
    """What the counters stood at; what could not be read is missing or ``None``."""

    at_s: float  # monotonic
    cpus: tuple[CpuTimes, ...] = ()
    runnable: int | None = None
    quotas: Mapping[str, Quota] = {}
    waited_s: Mapping[str, float] = {}  # of PRESSURES
    interfaces: Mapping[str, int] = {}  # bytes
    own_s: float = 0.0  # CPU time of this process


class Host:
    """Reads the counters of this host, and remembers which of them there are not.

    Args:
        root: The tree that holds ``proc`` and ``sys``.
        cpus: Those that count; ``None``: all that this process may use.
    """

    def __init__(self, root: Path = Path("/"), cpus: Collection[int] | None = None) -> None:
        self._root = root
        self._cpus = os.sched_getaffinity(0) if cpus is None else cpus
        self._quotas: dict[str, None] = {}

    def watch_groups(self, pid: int) -> None:
        """From now on look at the control groups of this process too, and at those above."""
        for controller in ("", "cpu"):
            for folder in procfs.cgroup_folders(controller, str(pid), str(self._root)):
                path = f"{folder}/cpu.stat"
                if parse_quota(procfs.read(path)) is not None:
                    self._quotas[path] = None

    def look(self) -> HostCounters:
        """Read all counters: some 0.2 ms."""
        stat = self._read("proc/stat")
        waited = {name: parse_pressure(self._read(f"proc/pressure/{name}")) for name in PRESSURES}
        quotas = {path: parse_quota(procfs.read(path)) for path in self._quotas}
        return HostCounters(
            at_s=time.monotonic(),
            cpus=tuple(procfs.parse_cpus(stat, self._cpus)),
            runnable=parse_runnable(stat),
            quotas={path: quota for path, quota in quotas.items() if quota is not None},
            waited_s={name: total for name, total in waited.items() if total is not None},
            interfaces=parse_interfaces(self._read("proc/net/dev")),
            own_s=time.process_time(),
        )

    def _read(self, name: str) -> bytes:
        return procfs.read(f"{self._root}/{name}")


def gaps(first: HostCounters, last: HostCounters) -> list[str]:
    """What the counters do not tell, a sentence each."""
    found = []
    if not first.cpus:
        found.append("The host's CPUs are not recorded: /proc/stat cannot be read.")
    elif made_up(first, last):
        found.append("The host's CPUs are not recorded: /proc/stat does not keep up with the time.")
    missing = [name for name in PRESSURES if name not in first.waited_s]
    if missing:
        found.append(
            f"Pressure ({', '.join(missing)}) is not recorded: /proc/pressure cannot be read"
            " (the kernel lacks PSI, or it wants psi=1 on its command line)."
        )
    if not last.quotas:
        found.append("Throttling is not recorded: no control group of the trial says how long.")
    if not first.interfaces:
        found.append("The network is not recorded: /proc/net/dev cannot be read.")
    return found


def made_up(first: HostCounters, last: HostCounters) -> bool:
    """True for a container's ``/proc/stat`` that is not the host's own."""
    total_s = sum(cpu.all for cpu in last.cpus) - sum(cpu.all for cpu in first.cpus)
    clock_s = last.at_s - first.at_s
    # A tick is 10 ms: of less time than this nothing can be said.
    return clock_s >= 1.0 and not is_the_hosts(total_s, clock_s, len(first.cpus))


def others_s(before: HostCounters, after: HostCounters, trial_s: float) -> float | None:
    """CPU time of processes that are neither of the trial nor this one.

    Below 0 where the processes were read later than the host. ``None``: not known.
    """
    if not _comparable(before, after):
        return None
    busy_s = sum(cpu.busy for cpu in after.cpus) - sum(cpu.busy for cpu in before.cpus)
    return busy_s - trial_s - (after.own_s - before.own_s)


def host_row(
    before: HostCounters,
    after: HostCounters,
    *,
    trial_s: float,
    others_s: float | None,
    memory_bytes: float,
    interface: str = "",
) -> dict[str, float | None]:
    """The columns of `HOST_COLUMNS` for one interval, but for bursts and GPUs.

    Args:
        before: The counters at its begin.
        after: Those at its end, later.
        trial_s: CPU time of the trial's processes in it.
        others_s: CPU time of all others, at least 0.
        memory_bytes: Of the trial's processes at its end.
        interface: That of which the bursts are seen; without one the busiest counts.
    """
    interval_s = after.at_s - before.at_s
    network = moved(before, after)
    moved_bytes = network.get(interface, max(network.values(), default=None))
    row: dict[str, float | None] = {
        "others_cores": None if others_s is None else others_s / interval_s,
        "runnable_threads": None if after.runnable is None else float(after.runnable),
        "throttled_share": _throttled(before, after, trial_s),
        "network_bytes_per_s": None if moved_bytes is None else moved_bytes / interval_s,
        "memory_bytes": memory_bytes,
    }
    for name in ("user", "system", "steal", "iowait"):
        grown_s = sum(getattr(cpu, name) for cpu in after.cpus)
        grown_s -= sum(getattr(cpu, name) for cpu in before.cpus)
        known = _comparable(before, after)
        row[f"{name}_cores"] = max(0.0, grown_s) / interval_s if known else None
    for name in PRESSURES:
        told = name in before.waited_s and name in after.waited_s
        waited_s = after.waited_s[name] - before.waited_s[name] if told else 0.0
        share = min(1.0, max(0.0, waited_s / interval_s))
        row[f"{name}_pressure_share"] = share if told else None
    return row


def moved(before: HostCounters, after: HostCounters) -> dict[str, int]:
    """The bytes that each interface moved."""
    return {
        name: max(0, count - before.interfaces[name])
        for name, count in after.interfaces.items()
        if name in before.interfaces
    }


def _comparable(before: HostCounters, after: HostCounters) -> bool:
    return bool(before.cpus) and len(before.cpus) == len(after.cpus)


def _throttled(before: HostCounters, after: HostCounters, trial_s: float) -> float | None:
    """Of the CPU time that was used or held back, the part that was held back; the worst group."""
    shares = []
    for path, now in after.quotas.items():
        if (then := before.quotas.get(path)) is None:
            continue
        used_s = trial_s
        if then.used_s is not None and now.used_s is not None:
            used_s = max(0.0, now.used_s - then.used_s)
        held_s = max(0.0, now.held_s - then.held_s)
        shares.append(held_s / (held_s + used_s) if held_s else 0.0)
    return max(shares, default=None)


# --- the network at a millisecond, since a mean hides bursts ---------------------------------

#: A window is so long, and is read so often, s.
WINDOW_S = 0.05
STEP_S = 0.001

#: A reading that took longer is of no certain moment, s: the thread had lost its CPU meanwhile.
MOST_READ_S = STEP_S / 5


@dataclass(frozen=True)
class Burst:
    """What was seen of an interface in one window or more."""

    most_bytes_per_s: float  # in one step
    busy_s: float  # in steps with traffic
    looked_s: float

    def joined(self, other: Burst | None) -> Burst:
        """Both together."""
        if other is None:
            return self
        return Burst(
            max(self.most_bytes_per_s, other.most_bytes_per_s),
            self.busy_s + other.busy_s,
            self.looked_s + other.looked_s,
        )

    def columns(self) -> dict[str, float | None]:
        """As columns of `HOST_COLUMNS`."""
        return {
            "network_burst_bytes_per_s": self.most_bytes_per_s,
            "network_busy_share": self.busy_s / self.looked_s,
        }


def of_steps(readings: Iterable[tuple[float, int]]) -> Burst | None:
    """The burst in readings of (moment in s, bytes so far); ``None`` of fewer than two.

    A step that came late counts with its real length: its rate is a mean, never too high.
    """
    most, busy_s, looked_s = 0.0, 0.0, 0.0
    before: tuple[float, int] | None = None
    for at_s, count in readings:
        if before is not None and at_s <= before[0]:
            continue
        if before is not None:
            step_s, moved = at_s - before[0], max(0, count - before[1])
            most = max(most, moved / step_s)
            busy_s += step_s if moved else 0.0
            looked_s += step_s
        before = (at_s, count)
    return Burst(most, busy_s, looked_s) if looked_s else None


def window(interface: str, ended: Callable[[], bool], root: Path = Path("/")) -> Burst | None:
    """Read the counters of an interface for `WINDOW_S`, or until it is ended.

    ``None``: they cannot be read, or not in time.
    """
    # What goes over lo comes in as well: it is counted once.
    names = ("rx_bytes",) if interface == "lo" else ("rx_bytes", "tx_bytes")
    files = [f"{root}/sys/class/net/{interface}/statistics/{name}" for name in names]
    readings: list[tuple[float, int]] = []
    end_s = time.monotonic() + WINDOW_S
    while not readings or (time.monotonic() < end_s and not ended()):
        begun_s = time.monotonic()
        texts = [procfs.read(file).strip() for file in files]
        at_s = time.monotonic()
        if not all(text.isdigit() for text in texts):
            return None
        if at_s - begun_s <= MOST_READ_S or not readings:
            readings.append((at_s, sum(map(int, texts))))
        time.sleep(STEP_S)
    return of_steps(readings)
