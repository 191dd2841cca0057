"""Where a job runs, and with which MPI."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What one host has for the processes started by this one."""

    hostname: str
    cpu_model: str
    logical_cpus: int
    physical_cores: int
    affinity_cpus: int
    quota_cpus: float | None
    numa_nodes: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """CPUs that may really be used: affinity and cgroup quota, at least 1."""
        quota = self.affinity_cpus if self.quota_cpus is None else max(1, round(self.quota_cpus))
        return max(1, min(self.affinity_cpus, quota))

    @property
    def usable_cores(self) -> int:
        """Physical cores within affinity and quota, at least 1: hardware threads share a core."""
        share = min(1.0, self.affinity_cpus / max(1, self.logical_cpus))
        return max(1, min(self.cores, math.ceil(self.physical_cores * share)))


@dataclass(frozen=True)
class Layout:
    """Which hosts, and how many ranks in all and on each."""

    ranks: int
    hosts: tuple[str, ...] = ("localhost",)

    @property
    def ranks_per_host(self) -> int:
        """Ranks on the fullest host."""
        return -(-self.ranks // len(self.hosts))


@dataclass(frozen=True)
class LauncherInfo:
    """An mpirun that was found and asked for its version."""

    kind: str  # "openmpi" or "mpich"
    mpirun: str  # absolute path
    version: str  # "5.0.11"
    libmpi: str | None = None  # the library the ranks' mpi4py must load, absolute path
    extra_args: tuple[str, ...] = ()  # the user's own --mpirun-arg
