"""One window of a running job, from the order to switch to what it came to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.launch import stacks
from tuner.launch.trial import Ended
from tuner.live import messages
from tuner.live.batches import Iterations
from tuner.live.job import Job
from tuner.live.judging import WindowJudge
from tuner.live.messages import Message, Steps, Switched
from tuner.live.readback import refused
from tuner.live.request import MeasurementRequest
from tuner.live.windows import LEAST_ENDED, Estimate, estimate, is_long_enough, needed_error
from tuner.model import Failed, FailureKind, Progress, Stopped

#: How often a window is looked at, s; what the job says wakes us at once.
TICK_S = 0.05

#: A job that ends closes its connection first, and has ended before this is over, s.
LAST_S = 10.0

#: The iterations are looked at again once they are more by this share …
GROWN = 1.02
#: … and no sooner than after this, s: a look takes milliseconds of the ranks' cores.
LOOK_S = 0.1

#: A program may end no more iterations (it has made another optimizer), and still compute. Nothing
#: heard for so long, s, …
DRY_S = 30.0
#: … and for so many times what was heard of, is no evaluation: these are a part of a run.
DRY_TIMES = 10.0


@dataclass
class Measuring:
    """Follows a job until the window is done, or something else ends it."""

    job: Job
    asked: MeasurementRequest
    judge: WindowJudge
    is_first: bool  # the job was started for it
    estimate: Estimate = field(default_factory=lambda: Estimate(0, ()))
    switched: Switched | None = None
    stopped: Stopped | None = None  # by the judge; the job runs on
    ordered_s: float = 0.0
    switched_s: float = 0.0

    def __post_init__(self) -> None:
        self._now = self.job.clock
        self._iterations = Iterations()
        self._looked_at, self._looked_s, self._told_enough = 0, -math.inf, False
        self._changed: frozenset[str] = frozenset()
        self._heard_s = self._now()
        self._coming = 1  # so many iterations will be told of next, at most

    # --- the two stretches -----------------------------------------------------------

    def switch(self) -> Ended | None:
        """Have the ranks change; how the job ended, where it did."""
        self.job.orders += 1
        self.ordered_s = self._heard_s = self._now()
        values = self.job.order(self.asked.setting)
        self._changed = frozenset(values)
        self.job.server.send(messages.switch(self.job.orders, values))
        ended = self._follow(lambda: self.switched is not None, self._unanswered)
        self.switched_s = self._now()
        return ended

    def run(self) -> Ended | None:
        """Measure until the window is long enough or hopeless; how the job ended, where it did."""
        return self._follow(self._is_done, self._silent)

    def _follow(
        self, done: Callable[[], bool], wrong: Callable[[], Failed | Stopped | None]
    ) -> Ended | None:
        job = self.job
        while not done() and not (self.is_first and self._is_lost()):
            self._hear(job.server.receive(TICK_S))
            exit_ = job.running.poll()
            if exit_ is not None:
                self._hear_the_rest()
                self._look()
                return exit_, None
            reason = None if done() else self._reason_to_stop() or wrong()
            if reason is not None:
                return job.follower.stop(reason)
        return None

    def _is_lost(self) -> bool:
        """Whether the job lives, but takes no orders any more."""
        server = self.job.server
        return not server.is_open and self._now() - server.lost_s > LAST_S

    # --- what the job says -----------------------------------------------------------

    def _hear_the_rest(self) -> None:
        while self.job.server.is_open:
            found = self.job.server.receive(0.0)
            self._hear(found)
            if not found:
                break

    def _hear(self, found: list[Message]) -> None:
        if found:
            self._heard_s = self._now()
            self.job.follower.heard += len(found)
        for message in found:
            if isinstance(message, Switched) and message.number == self.job.orders:
                self.switched = message
            elif isinstance(message, Steps):
                self._take(message)

    def _take(self, steps: Steps) -> None:
        self._coming = max(1, 2 * len(steps.times_s))
        if self.switched is None:
            return
        for iteration, time_s in enumerate(steps.times_s, steps.first):
            if iteration >= self.switched.iteration:
                self._iterations.add(time_s, iteration in steps.marks)

    # --- when it ends ----------------------------------------------------------------

    def _is_done(self) -> bool:
        if not self._told_enough and self._is_to_be_looked_at():
            self._look()
        return self._told_enough or self._has_run_dry()

    def _is_to_be_looked_at(self) -> bool:
        seen, soon = self._iterations.seen, self._now() - self._looked_s < LOOK_S
        return seen > 0 and seen >= GROWN * self._looked_at and not soon

    def _look(self) -> None:
        """See what the iterations tell by now, and whether that is enough."""
        self._looked_at, self._looked_s = self._iterations.seen + 1, self._now()
        batches = self._iterations.counted
        found = self.estimate = estimate(batches.means, batches.each)
        if not found.iterations:
            return
        self._report(found)
        self.stopped = self.judge.of(found.times_s, self._now() - self.switched_s, found.each)
        self._told_enough = self.stopped is not None or self._is_long_enough(found)

    def _has_run_dry(self) -> bool:
        """Whether the job tells of no more iterations, and has told of enough for a figure."""
        silent_s = self._now() - self._heard_s
        heard_s = self._heard_s - self.switched_s
        is_dry = silent_s > max(DRY_S, DRY_TIMES * heard_s)
        return is_dry and self.estimate.iterations >= LEAST_ENDED

    def _is_long_enough(self, found: Estimate) -> bool:
        expected, ratio = self.asked.expected, None
        if expected.incumbent_s is not None:
            ratio = expected.figure_s(found.pace_s) / expected.incumbent_s
        needed = needed_error(self.job.spec.precision, ratio)
        period = self.job.period(self.asked.setting)
        return is_long_enough(found, needed, expected.iterations, period)

    def _report(self, found: Estimate) -> None:
        expected = self.asked.expected
        elapsed_s = expected.log(found.times_s, found.each)[-1][1]
        self.asked.on_progress(Progress(found.iterations, elapsed_s))

    def _reason_to_stop(self) -> Failed | Stopped | None:
        if self.asked.cancelled():
            return Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
        limit_s = self.job.follower.launch.limit_s
        since_s = self.job.started_s if self.is_first else self.ordered_s
        if limit_s is not None and self._now() - since_s >= limit_s:
            return Failed(FailureKind.LIMIT, f"not done within the trial limit of {limit_s:g} s")
        if self._is_lost() and not self.is_first:
            return self._stalled(f"the job takes no more orders: {self.job.server.problem}")
        return self.job.follower.look()

    def _unanswered(self) -> Failed | None:
        """A job that lives and does not switch."""
        limit_s = self.job.spec.stall_limit_s
        if limit_s is None or self._now() - self.ordered_s < limit_s:
            return None
        who = self.job.follower.silence()
        return self._stalled(f"no answer to the order to switch within {limit_s:g} s: {who}")

    def _stalled(self, reason: str) -> Failed:
        """A failure, with the stacks of the ranks kept."""
        follower = self.job.follower
        where = stacks.keep(follower.launch.folder / stacks.FOLDER, follower.watcher.ranks())
        return Failed(FailureKind.STALLED, f"{reason}; {where}")

    def _silent(self) -> Stopped | None:
        silent_s = self._now() - self._heard_s
        return self.judge.of_silence(self.estimate.times_s, silent_s, self._coming)

    @property
    def refused(self) -> Failed | None:
        """That the ranks could not be switched; ``None`` where they could, or did not answer."""
        ranks = self.switched.ranks if self.switched else ()
        return refused(self.asked.setting, ranks, self._changed)
