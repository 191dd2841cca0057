"""Observes one launch: its ranks, what they do, and what else the host does meanwhile.

A :class:`LaunchObserver` looks at this host. For a job over several hosts each agent has one, and
:class:`tuner.hosts.remote.hosts_observer.HostsObserver` joins what they observe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.hosts import stacks
from tuner.hosts.activity import Activity, ComputeDetector, activities, running_threads
from tuner.hosts.interference import host_snapshot, load_between
from tuner.hosts.observe import Watcher
from tuner.hosts.probe import read_phases
from tuner.hosts.telemetry.recording import Recorder
from tuner.model import Launch, Load, Observation, StudySpec, Telemetry


@dataclass(frozen=True)
class LaunchView:
    """All that was seen of a launch."""

    observation: Observation
    telemetry: Telemetry
    load: Load


class LaunchObserver:
    """Looks at a launch on this host while it runs; its probe reports to ``probe/`` in the folder.

    ``reaps``: the launch runs below this process, so that the kernel counts its CPU time with ours
    once it has ended. For another launch the time of the last sample is taken.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ranks: int,
        gpus: bool,
        environ: Mapping[str, str],
        reaps: bool = True,
    ) -> None:
        self._folder, self._ranks, self._gpus, self._environ = folder, ranks, gpus, environ
        self._reaps = reaps
        self._pids: Callable[[], Collection[int]] = tuple
        self._detector = ComputeDetector()
        self._telemetry = Telemetry()
        self.begin()

    @classmethod
    def of(cls, launch: Launch, spec: StudySpec) -> LaunchObserver:
        """Return the observer of a launch that runs on this host alone."""
        gpus = bool(spec.machine.gpus)
        ranks = 1 if spec.launcher.kind == "none" else spec.layout.ranks
        return cls(launch.folder, ranks=ranks, gpus=gpus, environ=launch.env)

    def follow(self, pids: Callable[[], Collection[int]], /) -> None:
        """Call ``pids`` for the ids of the launch's processes on this host from now on."""
        self._pids = pids

    def begin(self) -> None:
        """Begin anew: nothing that was observed so far counts."""
        pids = self._pids()
        self._watcher = Watcher(self._folder)
        self._watcher.sample(pids)
        self._first_snapshot = self._last_snapshot = host_snapshot(pids)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the telemetry while the block runs."""
        recorder = Recorder(
            lambda: self._watcher.members, ranks=self._ranks, gpus=self._gpus, environ=self._environ
        )
        try:
            with recorder:
                yield
        finally:
            self._telemetry = recorder.telemetry

    def sample(self) -> float:
        """Look at the launch's processes; return the CPU time that looking took, s."""
        before_s = time.thread_time()
        pids = self._pids()
        self._watcher.sample(pids)
        if pids and not self._reaps:
            self._last_snapshot = host_snapshot(pids)
        return time.thread_time() - before_s

    def wants_cpu(self) -> bool | None:
        """Return whether one of the launch's processes runs or waits for a CPU.

        Otherwise all of them wait for something else; ``None``: that cannot be seen, or none is
        left.
        """
        sampled = {member.pid for member in self._watcher.members}
        if any(map(running_threads, sampled)):
            return True
        pids = self._pids()
        return any(running_threads(pid) for pid in pids if pid not in sampled) if pids else None

    def activities(self) -> tuple[Activity, ...]:
        """Return what the processes of the last sample have done so far."""
        return activities(self._watcher.ranks())

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        """Return whether one of these processes was seen to compute, within ``most_s``."""
        return self._detector.any_computes([process.pid for process in processes], most_s)

    def stacks(self) -> dict[str, str]:
        """Return the stack of each rank's processes, by the name of the file that it is for."""
        return stacks.take(self._watcher.ranks())

    def view(self) -> LaunchView:
        """Return all that was observed, with what the host did since :meth:`begin`."""
        after = host_snapshot(self._pids()) if self._reaps else self._last_snapshot
        load = load_between(self._first_snapshot, after)
        telemetry = replace(self._telemetry, phases=read_phases(self._folder))
        columns = (track.columns.get("gpu_memory_share", ()) for track in telemetry.tracks)
        most_share = max((share for column in columns for share in column if share), default=0.0)
        observation = replace(self._watcher.result(), gpu_memory_share=most_share)
        return LaunchView(observation, telemetry, load)
