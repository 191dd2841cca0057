"""Is this machine quiet? A look before a study; what it says, nobody has to act on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts import interference
from tuner.hosts.interference import HostSnapshot
from tuner.model import Load, Machine, wording

#: How long the look takes, s.
LOOK_S = 0.5

#: What others may use, in cores, before it is told.
QUIET_CORES = 0.25

#: A clock that may not reach this share of what the CPU could do is told.
FULL_CLOCK = 0.9


@dataclass(frozen=True)
class Before:
    """What the machine does before anything is launched; clocks in kHz, 0: not known."""

    load: Load
    load_average: float = 0.0  # of the last minute: processes that run or want to
    clock_khz: int = 0  # the lowest that a CPU is allowed
    full_khz: int = 0  # what that CPU could do


def before(
    *,
    root: Path = Path("/"),
    look: Callable[[], HostSnapshot] = interference.look,
    pause: Callable[[float], None] = time.sleep,
) -> Before:
    """Look at the machine for half a second."""
    first = look()
    pause(LOOK_S)
    load = interference.between(first, look())
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
        allowed, possible = (
            _number(folder / name) for name in ("scaling_max_freq", "cpuinfo_max_freq")
        )
        if allowed and possible:
            yield allowed, possible


def _number(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0
