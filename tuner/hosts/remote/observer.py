"""What the hosts of a job see of a launch, as one view."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tuner.hosts.activity import Activity
from tuner.hosts.observer import LaunchView
from tuner.hosts.remote.hosts import Hosts
from tuner.hosts.supervisor.cleanup import MARKER
from tuner.hosts.untrusted_files import create
from tuner.model import Launch, Load, Observation, StudySpec, Telemetry

#: What of a launch's environment says which GPUs count.
_OF_GPUS = "CUDA_VISIBLE_DEVICES"


class HostsObserver:
    """Sees a launch on several hosts; see :class:`tuner.hosts.observer.Observer`.

    What the program writes may lie on the host of rank 0 alone: its log is brought from there.
    """

    def __init__(self, hosts: Hosts, launch: Launch, spec: StudySpec) -> None:
        self._hosts, self._launch, self._spec = hosts, launch, spec
        self._ranks = dict(spec.layout.slots)
        self._views: Mapping[str, LaunchView] = {}
        inode = launch.out_dir.stat().st_ino
        self._shared = self._call_all("share", lambda _: (str(launch.out_dir), inode))
        self.begin()

    def _call_all(
        self, method: str, arguments: Callable[[str], Sequence[Any]] = lambda _: ()
    ) -> dict[str, Any]:
        """Call a method of a launch on all hosts."""
        marker = self._launch.env[MARKER]
        return self._hosts.call_all(method, lambda name: (marker, *arguments(name)))

    def begin(self, _: Iterable[int] = (), /) -> None:
        """See :class:`Observer`."""
        environ = {_OF_GPUS: devices} if (devices := self._launch.env.get(_OF_GPUS)) else {}
        gpus = bool(self._spec.machine.gpus)
        self._call_all("watch", lambda name: (self._ranks.get(name, 0), gpus, environ))
        self._views = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """See :class:`Observer`."""
        self._call_all("record")
        try:
            yield
        finally:
            self._look()

    def sample(self, _: Iterable[int], /) -> float:
        """See :class:`Observer`."""
        costs_s = self._call_all("sample")
        self._bring_log()
        return max(costs_s.values(), default=0.0)

    def wants_cpu(self) -> None:
        """See :class:`Observer`: to ask all hosts after each slice would take too long."""

    def activities(self) -> list[Activity]:
        """See :class:`Observer`."""
        by_host: Mapping[str, tuple[Activity, ...]] = self._call_all("activities")
        return [replace(activity, host=name) for name, some in by_host.items() for activity in some]

    def computes(self, processes: Collection[Activity], most_s: float) -> bool:
        """See :class:`Observer`."""
        of = {
            name: [process for process in processes if process.host == name] for name in self._ranks
        }
        return any(self._call_all("computes", lambda name: (of[name], most_s)).values())

    def stacks(self) -> dict[str, str]:
        """See :class:`Observer`."""
        by_host: Mapping[str, dict[str, str]] = self._call_all("stacks")
        return {name: text for some in by_host.values() for name, text in some.items()}

    def view(self, _: Collection[int] = (), /) -> LaunchView:
        """See :class:`Observer`."""
        if not self._views:  # it was not recorded
            self._look()
        return joined(self._views)

    def _look(self) -> None:
        """Take all that the hosts have seen of the launch and have of its log."""
        self._views = self._call_all("view")
        self._bring_log()

    def _bring_log(self) -> None:
        if all(self._shared.values()):
            return
        # Which host has rank 0 is the launcher's affair: it writes the log.
        pattern = f"{self._spec.objective.log}*"
        for files in self._call_all("changed", lambda _: (pattern,)).values():
            for name, text in files.items():
                with (
                    suppress(OSError),
                    os.fdopen(create(self._launch.out_dir / name), "wb") as file,
                ):
                    file.write(text.encode("latin-1"))


def joined(views: Mapping[str, LaunchView]) -> LaunchView:
    """The views of several hosts, by their names, as one."""
    ranks = {rank.rank: rank for view in views.values() for rank in view.observation.ranks}
    telemetries = [(name, view.telemetry) for name, view in views.items()]
    return LaunchView(
        Observation(
            tuple(ranks[number] for number in sorted(ranks)),
            memory_bytes=max((v.observation.memory_bytes for v in views.values()), default=0),
            written=tuple(sorted({f for v in views.values() for f in v.observation.written})),
        ),
        Telemetry(
            tracks=tuple(track for _, telemetry in telemetries for track in telemetry.tracks),
            phases=tuple(phase for _, telemetry in telemetries for phase in telemetry.phases),
            gaps=tuple(
                f"{name}: {gap}" for name, telemetry in telemetries for gap in telemetry.gaps
            ),
            cost_cores=max((telemetry.cost_cores for _, telemetry in telemetries), default=0.0),
            interface=next(
                (telemetry.interface for _, telemetry in telemetries if telemetry.interface), ""
            ),
        ),
        worst({name: view.load for name, view in views.items()}),
    )


def worst(loads: Mapping[str, Load]) -> Load:
    """What disturbed the most on any host: the ranks of the others wait for those there."""
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
