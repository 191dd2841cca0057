"""A running job whose ranks take orders: what it was started with, and how it is switched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.hosts import process
from tuner.launch.trial import LaunchMonitor, RunningLaunch
from tuner.live.messages import Hello
from tuner.live.server import Server
from tuner.model import Setting, StudySpec, Value


@dataclass
class Job:
    """A job that has said hello.

    Args:
        number: That of the launch that started it.
        launch: The launch; its setting is what the job was started with.
        server: The connection to it.
        hello: Its first message.
        clock: Seconds that only go forward.
        started_s: When it was started, by that clock.
    """

    number: int
    launch: RunningLaunch
    server: Server
    hello: Hello
    clock: Callable[[], float]
    started_s: float
    orders: int = 0
    pace_s: float | None = None  # of its quickest window so far
    _values: dict[str, Value | None] = field(default_factory=dict)

    @property
    def can(self) -> frozenset[str]:
        """The knobs that it can change while it runs."""
        return frozenset(self.hello.can)

    @property
    def monitor(self) -> LaunchMonitor:
        """What follows its processes."""
        return self.launch.follower

    @property
    def running(self) -> process.Running:
        """Its processes."""
        return self.monitor.running

    @property
    def spec(self) -> StudySpec:
        """The study that it was started for."""
        return self.monitor.spec

    def period(self, setting: Setting) -> int:
        """After how many iterations it may repeat itself: as many as a loader has workers.

        Chainer's shares each batch out among all of them.
        """
        workers = setting.as_dict().get("iterator_workers", 1)
        return 1 if self.hello.hook == "chainer" or not isinstance(workers, int) else workers

    def order(self, setting: Setting) -> dict[str, Value | None]:
        """What must be changed now for the setting; ``None``: as the job was started."""
        new, started = setting.as_dict(), self.launch.setting.as_dict()
        wanted = {k: None if new.get(k) == started.get(k) else new.get(k) for k in self.hello.can}
        changed = {k: value for k, value in wanted.items() if self._values.get(k) != value}
        self._values = wanted
        return changed

    def end(self) -> process.Exit:
        """End it; on return nothing of it is left. Harmless when repeated."""
        try:
            return self.running.stop()
        finally:
            self.server.close()
