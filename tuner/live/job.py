"""A running job whose ranks take orders: what it was started with, and what it can become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.hosts import process
from tuner.launch.trial import LaunchMonitor, RunningLaunch
from tuner.live.fitting import is_reachable
from tuner.live.messages import Hello
from tuner.live.server import Server
from tuner.model import Setting, StudySpec, Value


@dataclass
class Job:
    """A job that has said hello.

    Args:
        number: That of the launch that started it.
        begun: The launch; its setting is what the job was started with.
        server: The connection to it.
        hello: What it said first.
        clock: Seconds that only go forward.
        started_s: When it was started, by that clock.
    """

    number: int
    begun: RunningLaunch
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
    def follower(self) -> LaunchMonitor:
        """What follows its processes."""
        return self.begun.follower

    @property
    def running(self) -> process.Running:
        """Its processes."""
        return self.follower.running

    @property
    def spec(self) -> StudySpec:
        """The study that it was started for."""
        return self.follower.spec

    def period(self, setting: Setting) -> int:
        """After so many iterations it may repeat itself: as many as a loader has workers.

        Chainer's shares each batch out among all of them.
        """
        workers = setting.as_dict().get("iterator_workers", 1)
        return 1 if self.hello.hook == "chainer" or not isinstance(workers, int) else workers

    def fits(self, setting: Setting, frozen: frozenset[str]) -> bool:
        """Whether it can be switched to the setting: what cannot be changed is as there.

        Args:
            setting: What it is to be switched to.
            frozen: Knobs that are not to be changed in a running job.
        """
        return is_reachable(self.begun.setting, setting, self.can - frozen)

    def order(self, setting: Setting) -> dict[str, Value | None]:
        """What must be changed for the setting now; ``None``: as the job was started."""
        asked, own = setting.as_dict(), self.begun.setting.as_dict()
        wanted = {
            knob: None if asked.get(knob) == own.get(knob) else asked.get(knob)
            for knob in self.hello.can
        }
        changed = {k: value for k, value in wanted.items() if self._values.get(k) != value}
        self._values = wanted
        return changed

    def note(self, pace_s: float) -> None:
        """Keep the pace of its quickest window."""
        self.pace_s = pace_s if self.pace_s is None else min(self.pace_s, pace_s)

    def end(self) -> process.Exit:
        """End it; on return nothing of it is left. Harmless when repeated."""
        try:
            return self.running.stop()
        finally:
            self.server.close()
