"""A launch whose ranks may accept switches; if they do not, it is an ordinary one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tuner.hosts import process
from tuner.launch.monitor import LaunchMonitor
from tuner.launch.trial import RunningLaunch, begin
from tuner.live.measurement import MeasurementRequest
from tuner.live.messages import Hello
from tuner.live.server import PAUSE, VARIABLE, JobServer
from tuner.live.windows import LEAST
from tuner.model import Failed, FailureKind, Finished, Launch, Outcome, Setting, Value

#: A run of fewer iterations has no room for a window beside the discarded ones.
LEAST_RUN = 2 * LEAST

#: A log and the ranks may differ by so many iterations: the first ones may be told apart
#: otherwise, and a step be left out now and then …
LEAST_MISCOUNTED = 2
#: … and by no larger share of them.
MISCOUNTED_SHARE = 0.1

_HOOKS = {"torch": "at the optimizer's step", "chainer": "at the updater's update"}


@dataclass
class Job:
    """A launch that runs.

    Attributes:
        request: What it was started for; its setting is what the job was started with.
        launch: The launch.
        server: The socket that its ranks know of.
        clock: Seconds that only go forward.
        started_s: When it was started, by the clock.
        switches: How many switches it was told to make.
    """

    request: MeasurementRequest
    launch: RunningLaunch
    server: JobServer
    clock: Callable[[], float]
    started_s: float
    switches: int = 0
    _values: dict[str, Value | None] = field(default_factory=dict)

    @property
    def hello(self) -> Hello:
        """The first message of a job that accepts switches."""
        assert self.server.hello is not None
        return self.server.hello

    @property
    def can(self) -> frozenset[str]:
        """The knobs that it can change while it runs."""
        return frozenset(self.hello.can)

    @property
    def monitor(self) -> LaunchMonitor:
        """What follows its processes."""
        return self.launch.monitor

    @property
    def running(self) -> process.RunningTrial:
        """Its processes."""
        return self.monitor.running

    def period(self, setting: Setting) -> int:
        """After how many iterations it may repeat itself: as many as a loader has workers.

        Chainer's shares each batch out among all of them.
        """
        workers = setting.as_dict().get("iterator_workers", 1)
        return 1 if self.hello.hook == "chainer" or not isinstance(workers, int) else workers

    def order(self, setting: Setting) -> dict[str, Value | None]:
        """What must be changed now for the setting; ``None``: as the job was started."""
        new, started = setting.as_dict(), self.request.setting.as_dict()
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

    def refusal(self, outcome: Outcome | None = None, iterations: int = 0) -> str | None:
        """Why the launch, ended or left to itself, had no window; ``None``: by chance.

        Args:
            outcome: What it came to at its own end, if it came so far.
            iterations: Those of a full run; 0: not known.
        """
        server, ranks = self.server, self.request.spec.layout.ranks
        server.receive_all()
        waited = self.waited_in_vain()
        if server.hello is None:
            return server.problem or waited or "no rank said that it accepts switches"
        if server.hello.ranks != ranks or waited:
            return waited or f"{server.hello.ranks} of {ranks} ranks met"
        if server.problem and self.running.poll() is None:
            return server.problem
        if 0 < iterations < LEAST_RUN:
            return f"a run of {iterations} iterations is too short for a window"
        if outcome is None or server.iterations is None:
            return None
        return miscounted(outcome, server.iterations, server.hello.hook) or None

    def cold_outcome(self, iterations: int) -> Outcome:
        """Its outcome as an ordinary launch, followed to its end."""
        outcome = self.launch.outcome()
        assert outcome is not None  # it is followed to its end
        ending = outcome.ending
        if isinstance(ending, Finished) and ending.iterations > iterations:
            # It went on for us, beyond the end of a full run: its figure is none.
            reason = "it accepted no more switches after its own end"
            return replace(outcome, ending=Failed(FailureKind.INTERRUPTED, reason))
        return outcome

    def waited_in_vain(self) -> str:
        """Why the clock of the job is no measure, if ranks waited for others in vain; else empty.

        ``wrappers/probe/rank_live_sync.py`` leaves a file in the folder then.
        """
        if not (self.request.launch.folder / "ranks-waited").exists():
            return ""
        ranks = self.request.spec.layout.ranks
        return f"its {ranks} ranks do not come to the ends of their iterations together"


def start_job(
    request: MeasurementRequest,
    start: Callable[[Launch], process.RunningTrial],
    clock: Callable[[], float],
    *,
    iterations: int | None = None,
    pauses: bool = False,
) -> Job | Outcome:
    """Start the launch of a request; its outcome if it cannot be started.

    Args:
        request: What to start.
        start: Starts it.
        clock: Seconds that only go forward.
        iterations: Those of a full run; ``None``: not known.
        pauses: Whether rank 0 reports the program's own end, and waits there for an order.

    Raises:
        TunerError, UsageError: What :func:`tuner.launch.trial.begin` does.
    """
    server: JobServer | None = None
    started_s = clock()

    def with_server(launch: Launch) -> process.RunningTrial:
        nonlocal server
        server = JobServer(launch.folder, clock)  # the folder is there by now
        own = {} if server.problem else {VARIABLE: str(server.path), PAUSE: str(int(pauses))}
        return start(replace(launch, env={**launch.env, **own}))

    running: RunningLaunch | Outcome | None = None
    try:
        running = begin(
            request.launch,
            spec=request.spec,
            setting=request.setting,
            expected_iterations=iterations,
            start=with_server,
            clock=clock,
            on_progress=request.on_progress,
            cancelled=request.cancelled,
            stopper=request.stopper,
        )
    finally:
        if not isinstance(running, RunningLaunch) and server is not None:
            server.close()
    if isinstance(running, Outcome):
        return running
    assert server is not None
    return Job(request, running, server, clock, started_s)


def miscounted(outcome: Outcome, seen: int, hook: str) -> str:
    """How the log of a whole run counts other iterations than its ranks; empty if it does not.

    A window gives the pace of what the ranks count, a launch the number that its log counts. If an
    optimizer steps once in four batches, or twice in one, every window would be scaled by a wrong
    number.

    Args:
        outcome: That of the run.
        seen: How many iterations the ranks came to by its end.
        hook: What has counted them, as the job said.
    """
    if not isinstance(outcome.ending, Finished):
        return ""
    logged = [entry.iteration for entry in outcome.progress] or [outcome.ending.iterations]
    last = logged[-1]
    # Those behind the last entry are in no log: another entry would have come with as many as
    # there were between two.
    most = last + max(after - before for before, after in pairwise((0, *logged)))
    allowed = max(LEAST_MISCOUNTED, MISCOUNTED_SHARE * last)
    if last < seen < most or abs(seen - last) <= allowed:
        return ""
    if hook in _HOOKS:
        counted = f"{seen} were seen {_HOOKS[hook]} (session.step() says what an iteration is)"
    else:
        counted = f"{seen} ended at session.step()"
    return f"its log counts {last} iterations, {counted}"
