"""What was seen of a host and its ranks while a launch ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Columns of a host's track. Shares are between 0 and 1; `_cores` counts whole CPUs on average.
HOST_COLUMNS: Mapping[str, str] = {
    "user_cores": "CPUs busy with programs",
    "system_cores": "CPUs busy in the kernel",
    "steal_cores": "CPUs that the hypervisor gave to others",
    "iowait_cores": "CPUs idle while a disk was waited for",
    "others_cores": "CPUs used by processes outside of the trial",
    "runnable_threads": "threads that run or wait for a CPU",
    "throttled_share": "of the CPU time used or held back by a cgroup's quota, that held back",
    "cpu_pressure_share": "time in which some task waited for a CPU (PSI)",
    "io_pressure_share": "time in which some task waited for a disk (PSI)",
    "memory_pressure_share": "time in which some task waited for memory (PSI)",
    "network_bytes_per_s": "sent and received on the busiest interface (on lo counted once)",
    "network_burst_bytes_per_s": "the most within one of the milliseconds that were looked at",
    "network_busy_share": "of the milliseconds that were looked at, those with traffic",
    "memory_bytes": "resident memory of the trial's processes, what they share counted for each",
    "gpu_share": "GPUs' utilisation as NVML says, mean over GPUs",
    "gpu_power_w": "GPUs' power, sum",
    "gpu_memory_bytes": "GPUs' memory in use, sum",
}

#: Columns of a rank's track.
RANK_COLUMNS: Mapping[str, str] = {
    "own_user_cores": "CPUs that the rank's own process used in its program",
    "own_system_cores": "the same in the kernel",
    "own_queue_threads": "its threads that waited for a CPU, on average",
    "children_cores": "CPUs that its child processes (loader workers) used",
    "children_queue_threads": "their threads that waited for a CPU, on average",
    "runnable_threads": "threads of it and its children that run or wait for a CPU",
    "threads": "threads of it and its children",
    "voluntary_per_s": "switches away by waiting for something",
    "involuntary_per_s": "switches away though it had work",
    "memory_bytes": "resident memory of it and its children, what they share counted for each",
}

#: What a rank's main thread was seen doing (the probe inside Python ranks looks).
PHASES = ("loader", "exchange", "compute")


@dataclass(frozen=True)
class Track:
    """What was seen over time of one host (``rank`` is ``None``) or one rank on it.

    ``columns`` holds as many values a name as there are ``times_s`` (seconds since the launch,
    the end of each interval; the first begins with the launch); ``None`` if one was not seen.
    Values are means over the interval, but the greatest of memory, threads and bursts.
    """

    host: str
    rank: int | None
    times_s: tuple[float, ...]
    columns: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class PhaseShare:
    """How a rank's main thread spent its time in one phase, as shares of all its time.

    ``share`` is ``running + queued + blocked``: on a CPU, waiting for one, waiting for
    something else. ``where`` is the line that was seen most (``train.py:31 allreduce``).
    """

    rank: int
    phase: str  # one of PHASES
    share: float
    running: float
    queued: float
    blocked: float
    where: str = ""


@dataclass(frozen=True)
class Telemetry:
    """All that the sampler saw of a launch.

    ``gaps`` says in a sentence each what could not be seen, and why. ``cost_cores`` is what the
    sampler itself used, in cores. ``interface`` moved the most bytes; it is the one whose bursts
    were looked at, empty if there was no traffic.
    """

    tracks: tuple[Track, ...] = ()
    phases: tuple[PhaseShare, ...] = ()
    gaps: tuple[str, ...] = field(default=())
    cost_cores: float = 0.0
    interface: str = ""
