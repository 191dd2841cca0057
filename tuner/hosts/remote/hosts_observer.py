"""What the hosts of a job see of a launch, as one view."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar, TypeVarTuple

from tuner.hosts.activity import Activity
from tuner.hosts.launch_observer import LaunchObserver, LaunchView
from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.remote.remote_hosts import Hosts, Method
from tuner.hosts.supervisor.cleanup import MARKER
from tuner.hosts.untrusted_files import create
from tuner.model import Launch, Load, Observation, StudySpec, Telemetry

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

#: What of a launch's environment says which GPUs count.
_OF_GPUS = "CUDA_VISIBLE_DEVICES"


class HostsObserver(LaunchObserver):
    """Sees a launch on several hosts by their agents. No method fails because a host is lost.

    What the program writes may lie on the host of rank 0 alone: its log is brought from there.
    """

    def __init__(self, hosts: Hosts, launch: Launch, spec: StudySpec) -> None:
        self._hosts, self._launch, self._spec = hosts, launch, spec
        self._views: Mapping[str, LaunchView] = {}
        self._pids: Callable[[], Collection[int]] = tuple
        inode = launch.out_dir.stat().st_ino
        self._shared = self._call_all(LaunchOnHost.share, str(launch.out_dir), inode)
        self.begin()

    def _call_all(self, method: Method[*Ts, T], *arguments: *Ts) -> dict[str, T]:
        return self._hosts.call_all(self._launch.env[MARKER], method, *arguments)

    def follow(self, pids: Callable[[], Collection[int]], /) -> None:
        self._pids = pids

    def begin(self) -> None:
        environ = {_OF_GPUS: devices} if (devices := self._launch.env.get(_OF_GPUS)) else {}
        ranks = dict(self._spec.layout.slots)
        self._call_all(LaunchOnHost.watch, ranks, bool(self._spec.machine.gpus), environ)
        self._views = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        self._call_all(LaunchOnHost.record)
        try:
            yield
        finally:
            self._look()

    def sample(self) -> float:
        # The agents find processes by the marker. What hides it is known, should the supervisor of
        # this host be killed, only if it was seen below that before.
        self._pids()
        costs_s = self._call_all(LaunchOnHost.sample)
        self._bring_log()
        return max(costs_s.values(), default=0.0)

    def wants_cpu(self) -> None:
        """Say nothing: to ask all hosts after each slice would take too long."""

    def activities(self) -> tuple[Activity, ...]:
        by_host = self._call_all(LaunchOnHost.activities)
        return tuple(activity for some in by_host.values() for activity in some)

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        return any(self._call_all(LaunchOnHost.computes, processes, most_s).values())

    def stacks(self) -> dict[str, str]:
        by_host = self._call_all(LaunchOnHost.stacks)
        return {name: text for some in by_host.values() for name, text in some.items()}

    def view(self) -> LaunchView:
        if not self._views:  # it was not recorded
            self._look()
        return joined(self._views)

    def _look(self) -> None:
        """Fetch what all hosts have seen of the launch, and its log."""
        self._views = self._call_all(LaunchOnHost.view)
        self._bring_log()

    def _bring_log(self) -> None:
        if all(self._shared.values()):
            return
        # Which host has rank 0 is the launcher's affair: it writes the log.
        for files in self._call_all(LaunchOnHost.changed, f"{self._spec.objective.log}*").values():
            for name, text in files.items():
                with (
                    suppress(OSError),
                    os.fdopen(create(self._launch.out_dir / name), "wb") as file,
                ):
                    file.write(text.encode("latin-1"))


def joined(views: Mapping[str, LaunchView]) -> LaunchView:
    """Return the views of several hosts, by their names, as one."""
    observations = [view.observation for view in views.values()]
    telemetries = [view.telemetry for view in views.values()]
    ranks = {rank.rank: rank for observation in observations for rank in observation.ranks}
    return LaunchView(
        Observation(
            tuple(ranks[number] for number in sorted(ranks)),
            memory_bytes=max((o.memory_bytes for o in observations), default=0),
            gpu_memory_share=max((o.gpu_memory_share for o in observations), default=0.0),
            written=tuple(sorted({file for o in observations for file in o.written})),
        ),
        Telemetry(
            tracks=tuple(track for telemetry in telemetries for track in telemetry.tracks),
            phases=tuple(phase for telemetry in telemetries for phase in telemetry.phases),
            gaps=tuple(f"{name}: {gap}" for name, v in views.items() for gap in v.telemetry.gaps),
            cost_cores=max((telemetry.cost_cores for telemetry in telemetries), default=0.0),
        ),
        worst({name: view.load for name, view in views.items()}),
    )


def worst(loads: Mapping[str, Load]) -> Load:
    """Return what disturbed the most on any host: all other ranks wait for those there."""
    if not loads:
        return Load(0.0)
    name = max(loads, key=lambda name: loads[name].others_cores)
    busiest = loads[name].busiest
    return Load(
        others_cores=loads[name].others_cores,
        busiest=f"{busiest} on {name}" if busiest else "",
        throttled_s=max(load.throttled_s for load in loads.values()),
        hot=any(load.hot for load in loads.values()),
        swapped_bytes=max(load.swapped_bytes for load in loads.values()),
    )
