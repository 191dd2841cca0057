"""What a host sees of one launch: its ranks, what they do, and what else the host does meanwhile.

:class:`LaunchObserver` sees this host. For a job over several hosts each agent has one, and
:class:`tuner.hosts.remote.observer.HostsObserver` joins what they see.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tuner.hosts import procfs, stacks
from tuner.hosts.activity import Activity, Computing, activities
from tuner.hosts.interference import between, look
from tuner.hosts.observe import Watcher
from tuner.hosts.phases import read_phases
from tuner.hosts.telemetry import Sampler
from tuner.model import Launch, Load, Observation, StudySpec, Telemetry


@dataclass(frozen=True)
class LaunchView:
    """All that was seen of a launch."""

    observation: Observation
    telemetry: Telemetry
    load: Load


class Observer(Protocol):
    """Looks at a launch while it runs. None of its methods fails because a host is lost."""

    def begin(self, pids: Iterable[int] = (), /) -> None:
        """Forget what was seen so far; these processes of the launch run already."""

    def recording(self) -> AbstractContextManager[None]:
        """Record the telemetry meanwhile."""

    def sample(self, pids: Iterable[int], /) -> float:
        """Look at the launch, of which these are the processes that run on this host.

        Returns:
            The CPU time that it took, s; of several hosts the most.
        """

    def wants_cpu(self) -> bool | None:
        """Whether one of the processes of the last sample runs or waits for a CPU.

        Otherwise all of them wait for something else; ``None``: that cannot be seen.
        """

    def activities(self) -> list[Activity]:
        """What the processes of the last sample have done so far."""

    def computes(self, processes: Collection[Activity], most_s: float) -> bool:
        """Whether one of these, which use a CPU, runs code of its own; asked for ``most_s``."""

    def stacks(self) -> dict[str, str]:
        """Where the ranks stand, by the name of a file for it."""

    def view(self, pids: Collection[int] = (), /) -> LaunchView:
        """All that was seen; these processes of the launch go on."""


class LaunchObserver:
    """Sees a launch on this host; see :class:`Observer`.

    Args:
        folder: Where the probe reports to, in ``probe/``.
        ranks: How many ranks run on this host.
        gpus: Whether there is a GPU to look at.
        environ: The launch's environment.
        reaps: The launch is below this process, so that the kernel counts its CPU time with ours
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
        self._computing = Computing()
        self._telemetry = Telemetry()
        self.begin()

    @classmethod
    def of(cls, launch: Launch, spec: StudySpec) -> LaunchObserver:
        """That of a launch on this host alone."""
        gpus = bool(spec.machine.gpus)
        return cls(launch.folder, ranks=spec.layout.ranks, gpus=gpus, environ=launch.env)

    def begin(self, pids: Iterable[int] = ()) -> None:
        """See :class:`Observer`."""
        pids = tuple(pids)
        self._watcher = Watcher(self._folder)
        self._watcher.sample(pids)
        self._before = self._last = look(pids)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """See :class:`Observer`."""
        sampler = Sampler(
            lambda: self._watcher.members,
            ranks=self._ranks,
            gpus=self._gpus,
            environ=self._environ,
        )
        try:
            with sampler:
                yield
        finally:
            self._telemetry = sampler.telemetry

    def sample(self, pids: Iterable[int]) -> float:
        """See :class:`Observer`."""
        before_s = time.thread_time()
        pids = tuple(pids)
        self._watcher.sample(pids)
        if pids and not self._reaps:
            self._last = look(pids)
        return time.thread_time() - before_s

    def wants_cpu(self) -> bool | None:
        """See :class:`Observer`."""
        return any(procfs.wants_cpu(member.pid) for member in self._watcher.members)

    def activities(self) -> list[Activity]:
        """See :class:`Observer`."""
        return activities(self._watcher.ranks())

    def computes(self, processes: Collection[Activity], most_s: float) -> bool:
        """See :class:`Observer`."""
        return self._computing([process.pid for process in processes], most_s)

    def stacks(self) -> dict[str, str]:
        """See :class:`Observer`."""
        return stacks.take(self._watcher.ranks())

    def view(self, pids: Collection[int] = ()) -> LaunchView:
        """See :class:`Observer`."""
        load = between(self._before, look(pids) if self._reaps else self._last)
        telemetry = replace(self._telemetry, phases=read_phases(self._folder))
        return LaunchView(self._watcher.result(), telemetry, load)
