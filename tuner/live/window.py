"""Measures a setting in a window of a running job: from the request to switch to the outcome."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tuner.hosts import process
from tuner.knobs.effects import effects
from tuner.launch.monitor import Ended
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import RunningLaunch
from tuner.live.eligibility import NOT_BY_THE_SWITCH, is_reachable
from tuner.live.full_run import FullRunModel
from tuner.live.job_server import Hello, JobServer, Message, RankState, Steps, Switched
from tuner.live.window_estimate import (
    LEAST_ITERATIONS_AT_END,
    WindowEstimate,
    estimate,
    is_long_enough,
    stopped,
)
from tuner.model import (
    Effect,
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    Outcome,
    Progress,
    RankView,
    Setting,
    Stopped,
    Value,
    Verdict,
    Window,
    wording,
)

#: How often a window is looked at, s; a message of the job wakes us at once.
TICK_S = 0.05

#: A job that ends closes its connections first, and its processes have ended this much later, s.
ENDING_S = 10.0

#: Once a job has reported iterations, it hangs if nothing happens in it for as long as this many of
#: the slowest; and at least for so long, s. A rank that computes, or moves bytes, does not hang.
SILENT_TIMES, LEAST_SILENT_S = 10, 5.0

#: The time between two analyses, s: one takes milliseconds of the ranks' cores.
ANALYSIS_S = 0.1


@dataclass
class Job:
    """A launch that runs, and whose ranks are connected to the server; ``hello`` is its own."""

    launch: RunningLaunch
    server: JobServer
    hello: Hello
    started_s: float  # by `time.monotonic`
    refused: AbstractSet[str] = frozenset()  # knobs that jobs of this study could not change
    slowest_s: float = 0.0  # the longest iteration that rank 0 has reported
    _values: dict[str, Value | None] = field(default_factory=dict)  # in force; None: as started

    @property
    def live_knobs(self) -> frozenset[str]:
        """The knobs that the job can change while it runs."""
        return frozenset(self.hello.can) - self.refused

    def __post_init__(self) -> None:
        self.monitor = self.launch.monitor
        self.request = self.monitor.request  # what it was started for, with its setting
        self.running = self.monitor.running

    def period(self, setting: Setting) -> int:
        """Return after how many iterations the job may repeat itself: as many as it has workers.

        Chainer's loader shares out each batch among all workers, so every iteration is alike.
        """
        workers = setting.as_dict().get("iterator_workers", 1)
        return 1 if self.hello.hook == "chainer" or not isinstance(workers, int) else workers

    def hear(self, messages: Sequence[Message]) -> None:
        """Note messages of the job: they are signs of life, and show the slowest iteration."""
        self.monitor.messages += len(messages)
        for message in messages:
            if isinstance(message, Steps):
                self.slowest_s = max(self.slowest_s, *message.times_s, 0.0)  # 0.0: if it has none

    def order(self, setting: Setting) -> dict[str, Value | None]:
        """Return what must be changed now for the setting, and take these changes for done.

        ``None`` is the value that the job was started with.
        """
        new, started = setting.as_dict(), self.request.setting.as_dict()
        targets = {k: None if new.get(k) == started.get(k) else new.get(k) for k in self.hello.can}
        changes = {k: value for k, value in targets.items() if self._values.get(k) != value}
        self._values |= changes
        return changes

    def reaches(self, setting: Setting) -> bool:
        """Return whether the job can be switched to the setting, as far as its ranks have said."""
        return is_reachable(self.request.setting, setting, self.live_knobs)

    def end(self) -> process.Exit:
        """End the job; on return nothing of it is left. Harmless when repeated."""
        try:
            return self.running.stop()
        finally:
            self.server.close()


class WindowRun:
    """Switches a job to a setting, and follows it until the window is done or the job has ended.

    The time for the window began at ``since_s``, by `time.monotonic`. ``refusals`` says why the job
    cannot be switched to the setting, by knob; it is mostly empty.
    """

    def __init__(
        self, job: Job, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> None:
        self.job, self.request, self.model = job, request, model
        self.refusals: dict[str, str] = {}
        self._since_s = since_s
        self._is_first = request is job.request  # the job was started for this window
        self._new_steps: list[Steps] = []  # received, and not looked at yet
        self._times_s: list[float] = []  # of all iterations since the switch
        self._unmarked_s: list[float] = []  # of those without an evaluation or an epoch's start
        self._estimate = WindowEstimate(discarded=0, times_s=())
        self._switched: Switched | None = None
        self._stopped: Stopped | None = None  # by the stopper; the job runs on
        self._is_done = False
        self._ordered_s, self._switched_s = time.monotonic(), 0.0
        self._analysed_iterations, self._analysed_s = 0, -math.inf

    def measure(self) -> Outcome | None:
        """Return the outcome of the window; ``None``: the job was cut short, or has `refusals`.

        Without an outcome, or with a failure or an exit code, the job is not to be used any more.
        """
        spec = self.request.spec
        if spec.stall_limit_s is not None and self.job.slowest_s > 0:
            limit_s = max(LEAST_SILENT_S, SILENT_TIMES * self.job.slowest_s)
            self.job.monitor.watch(min(spec.stall_limit_s, limit_s))
        values = self.job.order(self.request.setting)
        self.job.server.switch(values)
        ended = self._follow(lambda: self._switched is not None)
        self._switched_s = time.monotonic()
        if ended is None and self._switched is not None:
            ranks = self._switched.ranks
            self.refusals = refusals(self.request.setting, ranks, values.keys())
            if self.refusals:
                return None
            self.job.monitor.look_afresh()
            with self.job.monitor.observer.recording():
                ended = self._follow(lambda: self._is_done)
            return self._outcome(ended, ranks)
        return self._outcome(ended, ranks=())

    def _follow(self, is_over: Callable[[], bool]) -> Ended | None:
        """Follow the job until the switch or the window is over; return how it ended, if it did."""
        job = self.job
        # A job that accepts no switches in its first window runs on, as an ordinary launch.
        while not is_over() and not (self._is_first and self._is_lost()):
            self._hear(job.server.receive(TICK_S))
            exit_ = job.running.poll()
            if exit_ is not None:
                self._hear(job.server.receive_all())
                self._analyse()
                return exit_, None
            if time.monotonic() - self._analysed_s >= ANALYSIS_S:
                self._analyse()
            reason = None if is_over() else self._reason_to_stop()
            if reason is not None:
                return job.monitor.stop(reason)
        return None

    def _is_lost(self) -> bool:
        """Return whether the job runs on, but accepts no switches any more."""
        return 0 < self.job.server.lost_s < time.monotonic() - ENDING_S

    def _hear(self, messages: list[Message]) -> None:
        self.job.hear(messages)
        for message in messages:
            if isinstance(message, Switched):
                self._switched = message
            else:
                self._new_steps.append(message)
        if self._switched is None:  # rank 0 may go on before the last rank has changed
            return
        for message in self._new_steps:
            for iteration, time_s, is_marked in message.timings():
                if iteration >= self._switched.iteration:
                    self._times_s.append(time_s)
                    if not is_marked:
                        self._unmarked_s.append(time_s)
        self._new_steps.clear()

    def _analyse(self) -> None:
        """Estimate the pace anew if there are new iterations, and see if the window is done."""
        if len(self._times_s) == self._analysed_iterations:
            return
        self._analysed_iterations, self._analysed_s = len(self._times_s), time.monotonic()
        most_are_marked = 2 * len(self._unmarked_s) < len(self._times_s)
        window = self._estimate = estimate(self._times_s if most_are_marked else self._unmarked_s)
        if not window.iterations:
            return
        _, elapsed_s = self.model.log(window.times_s)[-1]
        self.request.on_progress(Progress(window.iterations, elapsed_s))
        self._stopped = stopped(window, self.model, self.request.stopper)
        period = self.job.period(self.request.setting)
        is_enough = is_long_enough(window, self.model, self.request.spec.precision, period=period)
        self._is_done = is_enough or self._stopped is not None

    def _reason_to_stop(self) -> Failed | Stopped | None:
        if self.request.cancelled():
            return Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
        limit_s = self.job.request.launch.limit_s
        since_s = self.job.started_s if self._is_first else self._ordered_s
        if limit_s is not None and time.monotonic() - since_s >= limit_s:
            return Failed(FailureKind.LIMIT, f"not done within the trial limit of {limit_s:g} s")
        stalled, stall_limit_s = "", self.request.spec.stall_limit_s
        if self._is_lost() and not self._is_first:
            why = self.job.server.problem or "a rank has ended"
            stalled = f"the job accepts no more switches: {why}"
        elif (
            self._switched is None
            and stall_limit_s is not None
            and time.monotonic() - self._ordered_s >= stall_limit_s
        ):
            stalled = f"no answer to the request to switch within {stall_limit_s:g} s"
        if stalled:
            reason = f"{stalled}; {self.job.monitor.keep_stacks()}"
            return Failed(FailureKind.STALLED, reason)
        return self.job.monitor.look()

    def _outcome(self, ended: Ended | None, ranks: Sequence[RankState]) -> Outcome | None:
        """Return the outcome as :meth:`measure`; ``ranks`` is empty if they were not switched."""
        job, window, now_s = self.job, self._estimate, time.monotonic()
        is_cut_short = not job.server.is_open if ended is None else went_well(ended)
        if is_cut_short and self._stopped is None and window.iterations < LEAST_ITERATIONS_AT_END:
            return None
        setting, spec = self.request.setting, self.request.spec
        view = job.monitor.observer.view()
        observation = view.observation
        verdicts = effects(spec, setting, observation)
        ending = self._ending(ended, observation.ranks)
        switched_s = self._switched_s or now_s
        return Outcome(
            ending,
            wall_s=now_s - self._since_s,
            exit_code=None if ended is None else ended[0].code,  # of the job's `Exit`
            progress=tuple(itertools.starmap(Progress, self.model.log(window.times_s))),
            observation=observation,
            effects=tuple(read_back(effect, ranks) for effect in verdicts),
            load=view.load if ranks else None,
            exclusion=self._exclusion(ending),
            # The phases are those of the whole job, not of this window.
            telemetry=replace(view.telemetry, phases=()) if ranks else None,
            window=Window(
                job=job.request.number,
                live=tuple(sorted(job.live_knobs)),
                started_s=self._ordered_s - job.started_s if self._is_first else 0.0,
                switch_s=switched_s - self._ordered_s,
                discarded=window.discarded,
                iterations=window.iterations,
                pace_s=window.pace_s if window.iterations else 0.0,
                pace_se=window.pace_se if window.iterations > 1 else 0.0,
                at_s=(switched_s + now_s) / 2 - job.started_s,
            ),
        )

    def _ending(self, ended: Ended | None, ranks: tuple[RankView, ...]) -> Ending:
        if ended is not None and not went_well(ended):
            return self.job.launch.classify(*ended, ranks)
        if self._stopped is not None:
            return self._stopped
        return Finished(self.model.figure_s(self._estimate.pace_s), self.model.iterations)

    def _exclusion(self, ending: Ending) -> Exclusion | None:
        """Return why a failure does not count: its next launch shows if the switch was at fault."""
        if not isinstance(ending, Failed) or ending.kind in NOT_BY_THE_SWITCH or self._is_first:
            return None
        reason = wording.failure(ending)
        text = f"{reason}; that may be the switch's fault: it is launched by itself"
        return Exclusion(ExclusionKind.AFTER_SWITCH, text)


def went_well(ended: Ended) -> bool:
    """Return whether a job has ended by itself, without an error."""
    exit_, reason = ended
    return exit_.code == 0 and reason is None and not exit_.stopped


def refusals(
    setting: Setting, ranks: Sequence[RankState], changed: AbstractSet[str]
) -> dict[str, str]:
    """Return the knobs that a rank could not change, each with the reason.

    Only errors of the knobs that had to be ``changed`` count: else a knob that cannot be read would
    fail every window.
    """
    reasons: dict[str, str] = {}
    for rank in ranks:
        for knob in sorted(changed & rank.errors.keys()):
            value = setting.as_dict().get(knob, "its first value")
            reasons.setdefault(knob, f"{knob}={value} in rank {rank.rank}: {rank.errors[knob]}")
    return reasons


def read_back(effect: Effect, ranks: Sequence[RankState]) -> Effect:
    """Return the verdict on a knob by what the ranks read back, if ``/proc`` does not show it."""
    if effect.verdict in {Verdict.CAPPED, Verdict.OVERRIDDEN} or effect.observed == effect.asked:
        return effect
    values = {rank.rank: rank.values.get(effect.knob) for rank in ranks}
    if not values or None in values.values():
        return effect
    for rank, value in values.items():
        if value is not None and not _is_same(value, effect.asked):
            reason = f"the program itself set it to {value} (read back in rank {rank})"
            return replace(effect, observed=value, verdict=Verdict.OVERRIDDEN, reason=reason)
    return replace(effect, observed=effect.asked, verdict=Verdict.HONOURED, reason="")


def _is_same(read: Value, requested: Value) -> bool:
    """Return whether two values of a knob are the same; one may be the text of a number."""
    with suppress(ValueError):  # one of them is no number
        return float(read) == float(requested)
    return read == requested
