"""Observes a launch on several hosts, and joins what they show to one view."""

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

#: The variable in a launch's environment that says which GPUs count.
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class HostsObserver(LaunchObserver):
    """Observes a launch on several hosts by their agents. No method fails because a host is lost.

    What the program writes may lie on the host of rank 0 alone: its log is copied from there.
    """

    def __init__(self, hosts: Hosts, launch: Launch, spec: StudySpec) -> None:
        self._hosts, self._launch, self._spec = hosts, launch, spec
        self._views: Mapping[str, LaunchView] = {}
        self._pids: Callable[[], Collection[int]] = tuple
        inode = launch.out_dir.stat().st_ino
        #: Whether each host shares the folder that the program writes into, by its name.
        self._is_shared = self._call_all(LaunchOnHost.share, str(launch.out_dir), inode)
        self.begin()

    def _call_all(self, method: Method[*Ts, T], *arguments: *Ts) -> dict[str, T]:
        return self._hosts.call_all(self._launch.env[MARKER], method, *arguments)

    def follow(self, pids: Callable[[], Collection[int]], /) -> None:
        self._pids = pids

    def begin(self) -> None:
        environ = {_VISIBLE: devices} if (devices := self._launch.env.get(_VISIBLE)) else {}
        ranks = dict(self._spec.layout.slots)
        self._call_all(LaunchOnHost.watch, ranks, bool(self._spec.machine.gpus), environ)
        self._views = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        self._call_all(LaunchOnHost.record)
        try:
            yield
        finally:
            self._fetch_views()

    def sample(self) -> float:
        # The agents find processes by the marker. If the supervisor of this host is killed, one
        # without the marker is found only if this call has listed it before.
        self._pids()
        costs_s = self._call_all(LaunchOnHost.sample)
        self._copy_log()
        return max(costs_s.values(), default=0.0)

    def wants_cpu(self) -> None:
        """Return ``None``: to ask all hosts ten times a second would take too long."""

    def activities(self) -> tuple[Activity, ...]:
        by_host = self._call_all(LaunchOnHost.activities)
        return tuple(activity for of_host in by_host.values() for activity in of_host)

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        return any(self._call_all(LaunchOnHost.computes, processes, most_s).values())

    def stacks(self) -> dict[str, str]:
        by_host = self._call_all(LaunchOnHost.stacks)
        return {name: text for of_host in by_host.values() for name, text in of_host.items()}

    def view(self) -> LaunchView:
        if not self._views:  # it was not recorded
            self._fetch_views()
        return joined(self._views)

    def _fetch_views(self) -> None:
        """Fetch what all hosts have observed of the launch, and its log."""
        self._views = self._call_all(LaunchOnHost.view)
        self._copy_log()

    def _copy_log(self) -> None:
        if all(self._is_shared.values()):
            return
        # Rank 0 writes the log, and only the launcher knows on which host that is.
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
    """Return the worst load of any host: the ranks of other hosts wait for those on it."""
    if not loads:
        return Load(others_cores=0.0)
    name = max(loads, key=lambda name: loads[name].others_cores)
    busiest = loads[name].busiest
    return Load(
        others_cores=loads[name].others_cores,
        busiest=f"{busiest} on {name}" if busiest else "",
        throttled_s=max(load.throttled_s for load in loads.values()),
        hot=any(load.hot for load in loads.values()),
        swapped_bytes=max(load.swapped_bytes for load in loads.values()),
    )
