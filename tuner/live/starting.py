"""A launch whose ranks may take orders; where they do not it is an ordinary one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tuner.hosts import process
from tuner.launch.trial import RunningLaunch, begin
from tuner.live.counting import miscounted
from tuner.live.messages import Hello
from tuner.live.request import MeasurementRequest
from tuner.live.server import PAUSE, VARIABLE, Server
from tuner.live.windows import LEAST
from tuner.model import Failed, FailureKind, Finished, Launch, Outcome

#: A run of fewer iterations has no room for a window beside what is thrown away.
LEAST_RUN = 2 * LEAST

_SILENT = "no rank said that it takes orders"


@dataclass(frozen=True)
class Started:
    """A launch that runs.

    ``server`` is the socket that its ranks know of, ``None`` where none could be made: then
    ``reason`` says why.
    """

    begun: RunningLaunch
    server: Server | None
    reason: str

    def takes_orders(self) -> bool:
        """Whether it has said that it does by now."""
        return self.server is not None and self.server.listens()

    @property
    def problem(self) -> str:
        """Why it takes no orders; empty where nothing was heard of it."""
        return self.reason if self.server is None else self.server.problem

    def close(self) -> None:
        """Take the socket away."""
        if self.server is not None:
            self.server.close()


def start(
    asked: MeasurementRequest,
    start_launch: Callable[[Launch], process.Running],
    clock: Callable[[], float],
    *,
    pauses: bool = False,
) -> Started | Outcome:
    """Start the launch that is asked for; its outcome where it cannot be started.

    Args:
        asked: What is to be started.
        start_launch: Starts it.
        clock: Seconds that only go forward.
        pauses: Whether it says when it is at its own end, and waits there for an order.

    Raises:
        TunerError, UsageError: What :func:`tuner.launch.trial.begin` does.
    """
    server: Server | None = None
    reason = ""

    def with_server(launch: Launch) -> process.Running:
        nonlocal server, reason
        try:  # its folder is there by now
            server = Server(launch.folder, clock)
        except OSError as error:
            reason = f"no socket can be made in {launch.folder}: {error.strerror}"
            return start_launch(launch)
        return start_launch(_with_socket(launch, server, pauses))

    done = False
    try:
        begun = begin(
            asked.launch,
            spec=asked.spec,
            setting=asked.setting,
            expected_iterations=asked.expected.iterations or None,
            start=with_server,
            clock=clock,
            on_progress=asked.on_progress,
            cancelled=asked.cancelled,
            judge=asked.judge,
        )
        done = isinstance(begun, RunningLaunch)
        return Started(begun, server, reason) if isinstance(begun, RunningLaunch) else begun
    finally:
        if not done and server is not None:
            server.close()


def met_in_vain(launch: Launch, ranks: int) -> str:
    """What to say of a job in whose clock ranks waited for others in vain; else empty.

    Args:
        launch: The job; ``wrappers/probe/rank_live_meeting.py`` leaves links in its folder then,
            and ``rank_live_marks.py`` where ranks that had met lost each other.
        ranks: How many it has.
    """
    links = [link.name for link in launch.folder.glob("meeting-*")]
    has_verdict = any(name.endswith("-verdict") for name in links)
    came = sum(not name.endswith("-verdict") for name in links)
    if has_verdict and came < ranks:
        return f"only {came} of {ranks} ranks came to the end of an iteration, and waited"
    if has_verdict or any(launch.folder.glob("parted-*")):
        return f"its {ranks} ranks do not come to the ends of their iterations together"
    return ""


def refusal(
    started: Started, asked: MeasurementRequest, outcome: Outcome | None = None
) -> str | None:
    """Why a launch came to no window; ``None``: it took orders, its end came by chance.

    Args:
        started: The launch, which has ended or is left to itself.
        asked: What was to be measured; without a number of iterations no run is too short.
        outcome: What it came to at its own end, where it came so far.
    """
    server = started.server
    if server is not None:
        server.receive_all()
    ranks = asked.spec.layout.ranks
    waited = met_in_vain(asked.launch, ranks)
    if server is None or server.hello is None:
        return started.problem or waited or _SILENT
    if server.hello.ranks != ranks:
        return f"{server.hello.ranks} of {ranks} ranks met"
    if waited:
        return waited
    if server.problem and started.begun.follower.running.poll() is None:
        return server.problem
    iterations = asked.expected.iterations
    if 0 < iterations < LEAST_RUN:
        return f"a run of {iterations} iterations is too short for a window"
    return _miscounted(server, server.hello, outcome) or None


def _miscounted(server: Server, hello: Hello, outcome: Outcome | None) -> str:
    """What to say where its log and its ranks count other iterations; else empty."""
    if server.iterations is None or not outcome or not isinstance(outcome.ending, Finished):
        return ""
    logged = [entry.iteration for entry in outcome.progress] or [outcome.ending.iterations]
    return miscounted(logged, server.iterations, hello.hook)


def to_its_end(begun: RunningLaunch, asked: MeasurementRequest) -> Outcome:
    """What a job came to that is an ordinary launch after all."""
    found = begun.outcome()
    assert found is not None  # it is followed to its end
    ending = found.ending
    if isinstance(ending, Finished) and ending.iterations > asked.expected.iterations:
        # It went on for us, beyond the end of a full run: its figure is none.
        reason = "it took no more orders after its own end"
        return replace(found, ending=Failed(FailureKind.INTERRUPTED, reason))
    return found


def _with_socket(launch: Launch, server: Server, pauses: bool) -> Launch:
    """The launch with what its ranks need to take orders."""
    own = {VARIABLE: str(server.path), PAUSE: str(int(pauses))}
    return replace(launch, env={**launch.env, **own})
