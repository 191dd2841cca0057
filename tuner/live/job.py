"""A launch that runs, and whose ranks may accept switches to other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise

from tuner.hosts import process
from tuner.launch.monitor import LaunchMonitor
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import RunningLaunch
from tuner.live.eligibility import is_reachable
from tuner.live.server import Hello, JobServer, Message, Steps
from tuner.model import Finished, Outcome, Setting, Value

#: A log and the ranks may differ by this many iterations: the first ones may be told apart
#: otherwise, and a step be left out now and then …
LEAST_MISCOUNTED = 2
#: … and by no larger share of them.
MISCOUNTED_SHARE = 0.1

#: After so many values of a knob that no job could be switched to it is no live knob any more.
MOST_REFUSED = 2

_HOOKS = {"torch": "at the optimizer's step", "chainer": "at the updater's update"}


@dataclass
class Job:
    """A launch that runs, and whose ranks may accept switches."""

    launch: RunningLaunch
    server: JobServer  # that its ranks know of
    started_s: float  # by `time.monotonic`
    slowest_s: float = 0.0  # the longest iteration that was heard of
    run_pace_s: float = 0.0  # of the iterations up to its program's own end, s; 0.0: not heard
    #: Values that jobs of this study could not be switched to, by knob.
    refused: Mapping[str, AbstractSet[Value | None]] = field(default_factory=dict)
    _values: dict[str, Value | None] = field(default_factory=dict)

    @property
    def hello(self) -> Hello:
        """The first message of a job that accepts switches."""
        assert self.server.hello is not None
        return self.server.hello

    @property
    def can(self) -> frozenset[str]:
        """The knobs that it can change while it runs."""
        few = (knob for knob in self.hello.can if len(self.refused.get(knob, ())) < MOST_REFUSED)
        return frozenset(few)

    @property
    def request(self) -> MeasurementRequest:
        """What it was started for, with its setting."""
        return self.monitor.request

    @property
    def monitor(self) -> LaunchMonitor:
        """What follows its processes."""
        return self.launch.monitor

    @property
    def running(self) -> process.RunningCommand:
        """Its processes."""
        return self.monitor.running

    def period(self, setting: Setting) -> int:
        """After how many iterations it may repeat itself: as many as a loader has workers.

        Chainer's shares each batch out among all of them.
        """
        workers = setting.as_dict().get("iterator_workers", 1)
        return 1 if self.hello.hook == "chainer" or not isinstance(workers, int) else workers

    def hear(self, messages: Sequence[Message]) -> None:
        """Note that these have come: it lives."""
        self.monitor.heard += len(messages)
        for message in messages:
            if isinstance(message, Steps):
                self.slowest_s = max(self.slowest_s, *message.times_s, 0.0)

    def changes(self, setting: Setting) -> dict[str, Value | None]:
        """What must be changed now for the setting; ``None``: as the job was started."""
        new, started = setting.as_dict(), self.request.setting.as_dict()
        targets = {k: None if new.get(k) == started.get(k) else new.get(k) for k in self.hello.can}
        return {k: value for k, value in targets.items() if self._values.get(k) != value}

    def order(self, setting: Setting) -> dict[str, Value | None]:
        """The :meth:`changes`, which are in force from now on."""
        changed = self.changes(setting)
        self._values |= changed
        return changed

    def reaches(self, setting: Setting) -> bool:
        """Whether it can be switched to the setting, as far as is known."""
        new = setting.as_dict()
        return is_reachable(self.request.setting, setting, self.can) and not any(
            new.get(knob) in self.refused.get(knob, ()) for knob in self.changes(setting)
        )

    def end(self) -> process.Exit:
        """End it; on return nothing of it is left. Harmless when repeated."""
        try:
            return self.running.stop()
        finally:
            self.server.close()

    def refusal(self, outcome: Outcome | None = None) -> str | None:
        """Why the launch, ended or left to itself, had no window; ``None``: by chance.

        ``outcome`` is what it came to at its own end, if it came so far.
        """
        server, ranks = self.server, self.request.spec.layout.ranks
        server.receive_all()
        if server.hello is None and server.come:
            return f"{server.come} of {ranks} ranks said that they accept switches"
        if server.hello is None:
            return server.problem or "no rank said that it accepts switches"
        if server.problem and self.running.poll() is None:
            return server.problem
        if outcome is None or server.iterations is None:
            return None
        return miscounted(outcome, server.iterations, server.hello.hook) or None


def miscounted(outcome: Outcome, iterations: int, hook: str) -> str:
    """How the log of a whole run counts other iterations than its ranks; empty if it does not.

    If an optimizer steps once in four batches, every window would be scaled by a wrong number.

    Args:
        outcome: That of the run.
        iterations: How many iterations the ranks came to by its end.
        hook: What has counted them, as the job said.
    """
    if not isinstance(outcome.ending, Finished):
        return ""
    logged = [entry.iteration for entry in outcome.progress] or [outcome.ending.iterations]
    last = logged[-1]
    # Those after the last entry are in no log: fewer than between two entries.
    most = last + max(after - before for before, after in pairwise((0, *logged)))
    allowed = max(LEAST_MISCOUNTED, MISCOUNTED_SHARE * last)
    if last < iterations < most or abs(iterations - last) <= allowed:
        return ""
    if hook in _HOOKS:
        counted = (
            f"{iterations} were seen {_HOOKS[hook]} (session.step() says what an iteration is)"
        )
    else:
        counted = f"{iterations} ended at session.step()"
    return f"its log counts {last} iterations, {counted}"
