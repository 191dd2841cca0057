"""One window of a running job, from the request to switch to its outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace

from tuner.knobs.effects import effects
from tuner.launch.monitor import STOPPER_ENTRIES, Ended
from tuner.launch.request import MeasurementRequest
from tuner.live.eligibility import NOT_BY_THE_SWITCH
from tuner.live.job import Job
from tuner.live.scale import FullRunModel
from tuner.live.server import Message, RankState, Steps, Switched
from tuner.live.windows import (
    LEAST_ENDED,
    Estimate,
    estimate,
    evaluation_s,
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
    Observation,
    Outcome,
    Progress,
    RankView,
    Setting,
    Stopped,
    StudySpec,
    Value,
    Verdict,
    Window,
    wording,
)

#: How often a window is looked at, s; a message of the job wakes us at once.
TICK_S = 0.05

#: A job that ends closes its connection first, and has ended before this is over, s.
LAST_S = 10.0

#: Once its iterations are known, a job hangs if nothing happens in it for as long as this many of
#: the slowest; and at least for so long, s. A rank that computes, or moves bytes, does not hang.
SILENT_TIMES, LEAST_SILENT_S = 10, 5.0

#: The iterations are analysed this often at most, s: that takes milliseconds of the ranks' cores.
ANALYSIS_S = 0.1


class WindowRun:
    """Switches a job to a setting, and follows it until the window is done or the job has ended.

    The time for the window began at ``since_s``, by `time.monotonic`.

    Attributes:
        refused: Why it cannot be switched to the setting, by knob; mostly empty.
    """

    def __init__(
        self, job: Job, request: MeasurementRequest, model: FullRunModel, since_s: float
    ) -> None:
        self.job, self.request, self.model = job, request, model
        self._since_s = since_s
        self._is_first = request is job.request  # the job was started for this window
        self._steps: list[Steps] = []  # not looked at yet
        self._marked_s: list[float] = []  # since the switch: with an evaluation, an epoch's start
        self._unmarked_s: list[float] = []  # the others
        self._times_s: list[float] = []  # all of them
        self._estimate = Estimate(0, ())
        self._switched: Switched | None = None
        self._stopped: Stopped | None = None  # by the stopper; the job runs on
        self._changed: frozenset[str] = frozenset()
        self.refused: dict[str, str] = {}
        self._ordered_s, self._switched_s = time.monotonic(), 0.0
        self._analysed, self._analysed_s, self._is_enough = 0, -math.inf, False

    def measure(self) -> Outcome | None:
        """The outcome of the window; ``None``: the job was cut short, or has :attr:`refused`.

        If there is none, it has an exit code or has failed, the job is not to be used any more.
        """
        ended = self.switch()
        is_measured = self._switched is not None and ended is None
        if self._switched is not None and is_measured:
            self.refused = refused(self.request.setting, self._switched.ranks, self._changed)
            if self.refused:
                return None
            self.job.monitor.look_afresh()
            with self.job.monitor.observer.recording():
                ended = self.run()
        if self._stopped is None and self._estimate.iterations < LEAST_ENDED:
            lost = not self.job.server.is_open if ended is None else went_well(ended)
            if lost:
                return None
        return self._outcome(ended, is_measured=is_measured)

    def switch(self) -> Ended | None:
        """Have the ranks change; how the job ended, if it did."""
        stall_limit_s = self.request.spec.stall_limit_s
        if stall_limit_s is not None and self.job.slowest_s > 0:
            limit_s = max(LEAST_SILENT_S, SILENT_TIMES * self.job.slowest_s)
            self.job.monitor.watch(min(stall_limit_s, limit_s))
        self._ordered_s = time.monotonic()
        values = self.job.order(self.request.setting)
        self._changed = frozenset(values)
        self.job.server.switch(values)
        ended = self._follow(lambda: self._switched is not None)
        self._switched_s = time.monotonic()
        return ended

    def run(self) -> Ended | None:
        """Measure until the window is long enough or hopeless; how the job ended, if it did."""
        return self._follow(self._is_done)

    def _follow(self, done: Callable[[], bool]) -> Ended | None:
        job = self.job
        while not done() and not (self._is_first and self._is_lost()):
            self._hear(job.server.receive(TICK_S))
            exit_ = job.running.poll()
            if exit_ is not None:
                self._hear(job.server.receive_all())
                self._analyse()
                return exit_, None
            reason = None if done() else self._reason_to_stop()
            if reason is not None:
                return job.monitor.stop(reason)
        return None

    def _is_lost(self) -> bool:
        """Whether the job lives, but accepts no switches any more."""
        return 0 < self.job.server.lost_s < time.monotonic() - LAST_S

    def _hear(self, messages: list[Message]) -> None:
        self.job.hear(messages)
        for message in messages:
            if isinstance(message, Switched):
                self._switched = message
            elif isinstance(message, Steps):
                self._steps.append(message)
        if self._switched is None:  # rank 0 may go on before the last rank has changed
            return
        for message in self._steps:
            for iteration, time_s, is_marked in message.timings():
                if iteration >= self._switched.iteration:
                    (self._marked_s if is_marked else self._unmarked_s).append(time_s)
                    self._times_s.append(time_s)
        self._steps.clear()

    # --- when it ends ----------------------------------------------------------------

    def _is_done(self) -> bool:
        is_time = time.monotonic() - self._analysed_s >= ANALYSIS_S
        if not self._is_enough and is_time and len(self._times_s) > self._analysed:
            self._analyse()
        return self._is_enough

    def _analyse(self) -> None:
        """Make the estimate, and see if it is enough."""
        self._analysed, self._analysed_s = len(self._times_s), time.monotonic()
        window = self._estimate = estimate(
            self._times_s if self._most_are_marked else self._unmarked_s
        )
        if not window.iterations:
            return
        elapsed_s = self.model.log(window.times_s, window.block_length)[-1][1]
        self.request.on_progress(Progress(window.iterations, elapsed_s))
        self._stopped = stopped(window, self.model, self.request.stopper)
        period = self.job.period(self.request.setting)
        precision = self.request.spec.precision
        self._is_enough = self._stopped is not None or is_long_enough(
            window, self.model, precision, period=period
        )

    @property
    def _most_are_marked(self) -> bool:
        return len(self._marked_s) > len(self._unmarked_s)

    def _reason_to_stop(self) -> Failed | Stopped | None:
        if self.request.cancelled():
            return Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
        limit_s = self.job.request.launch.limit_s
        since_s = self.job.started_s if self._is_first else self._ordered_s
        if limit_s is not None and time.monotonic() - since_s >= limit_s:
            return Failed(FailureKind.LIMIT, f"not done within the trial limit of {limit_s:g} s")
        if self._is_lost() and not self._is_first:
            why = self.job.server.problem or "a rank has ended"
            return self._stalled(f"the job accepts no more switches: {why}")
        end = self.job.monitor.look()
        limit_s = self.request.spec.stall_limit_s
        if end is not None or self._switched is not None or limit_s is None:
            return end
        if time.monotonic() - self._ordered_s < limit_s:
            return None
        who = self.job.monitor.silence()
        return self._stalled(f"no answer to the request to switch within {limit_s:g} s: {who}")

    def _stalled(self, reason: str) -> Failed:
        """A failure, with the stacks of the ranks kept."""
        return Failed(FailureKind.STALLED, f"{reason}; {self.job.monitor.keep_stacks()}")

    # --- its outcome -----------------------------------------------------------------

    def _outcome(self, ended: Ended | None, *, is_measured: bool) -> Outcome:
        job, window, now_s = self.job, self._estimate, time.monotonic()
        setting, spec = self.request.setting, self.request.spec
        ranks = self._switched.ranks if self._switched else ()
        view = job.monitor.observer.view()
        observation = observed(view.observation, ranks)
        log = self.model.log(window.times_s, window.block_length)
        some = log[:: -(len(log) // STOPPER_ENTRIES + 1)][::-1]  # the last is among them
        switched_s = self._switched_s or now_s
        pace_s = window.pace_s if window.iterations else 0.0
        tells_evaluations = pace_s > 0 and not self._most_are_marked
        ending = self._ending(ended, observation.ranks)
        return Outcome(
            ending,
            wall_s=now_s - self._since_s,
            exit_code=None if ended is None else ended[0].code,
            progress=tuple(Progress(iteration, elapsed_s) for iteration, elapsed_s in some),
            observation=observation,
            effects=effects_of(setting, spec, observation, ranks),
            load=view.load if is_measured else None,
            exclusion=self._exclusion(ending),
            # Its phases are of the whole job.
            telemetry=replace(view.telemetry, phases=()) if is_measured else None,
            window=Window(
                job=job.request.number,
                live=tuple(sorted(job.can)),
                started_s=self._ordered_s - job.started_s if self._is_first else 0.0,
                switch_s=switched_s - self._ordered_s,
                discarded=window.discarded,
                iterations=window.iterations,
                pace_s=pace_s,
                pace_se=window.pace_se if window.iterations > 1 else 0.0,
                at_s=(switched_s + now_s) / 2 - job.started_s,
                evaluation_s=evaluation_s(self._marked_s, pace_s) if tells_evaluations else 0.0,
                run_pace_s=job.run_pace_s,
            ),
        )

    def _ending(self, ended: Ended | None, ranks: tuple[RankView, ...]) -> Ending:
        if ended is not None and not went_well(ended):
            return self.job.launch.classifier.classify(*ended, ranks)
        if self._stopped is not None:
            return self._stopped
        return Finished(self.model.figure_s(self._estimate.pace_s), self.model.iterations)

    def _exclusion(self, ending: Ending) -> Exclusion | None:
        """Why a failure does not count: a launch then shows if the setting failed or the switch."""
        if not isinstance(ending, Failed) or ending.kind in NOT_BY_THE_SWITCH or self._is_first:
            return None
        said = wording.failure(ending)
        text = f"{said}; that may be the switch's fault: it is launched by itself"
        return Exclusion(ExclusionKind.AFTER_SWITCH, text)


def went_well(ended: Ended) -> bool:
    """Whether a job has ended by itself, without an error."""
    exit_, reason = ended
    return exit_.code == 0 and reason is None and not exit_.stopped


# --- what the ranks read back after the switch, as a launch shows it -------------------------


def observed(from_outside: Observation, ranks: Sequence[RankState]) -> Observation:
    """Both views of each rank joined: that from ``/proc``, and what the rank read back itself."""
    views = {view.rank: view for view in from_outside.ranks}
    for read_back in ranks:
        view = views.get(read_back.rank) or RankView(read_back.rank, 0, 0, ())
        views[read_back.rank] = replace(
            view,
            affinity=view.affinity or read_back.affinity,
            blas_threads=read_back.blas_threads,
            opencv_threads=read_back.opencv_threads,
            opencv_loaded=view.opencv_loaded or read_back.opencv_threads is not None,
            world_size=len(ranks),
            pools=read_back.pools,
            allocator=read_back.allocator,
            reported=True,
        )
    return Observation(tuple(view for _, view in sorted(views.items())))


def refused(
    setting: Setting, ranks: Sequence[RankState], changed: AbstractSet[str]
) -> dict[str, str]:
    """The knobs that a rank could not change, each with the reason; empty: all were switched.

    Only errors of the knobs that had to be ``changed`` count: a knob that cannot be read would else
    fail every window.
    """
    errors_by_knob: dict[str, list[tuple[int, str]]] = {}
    for rank in ranks:
        for knob in sorted(changed & rank.errors.keys()):
            errors_by_knob.setdefault(knob, []).append((rank.rank, rank.errors[knob]))
    values, reasons = setting.as_dict(), {}
    for knob, ((number, error), *others) in errors_by_knob.items():
        what = f"{knob}={values[knob]}" if knob in values else knob
        more = f" and {wording.count(len(others), 'other')}" if others else ""
        reasons[knob] = f"{what} in rank {number}{more}: {error}"
    return reasons


def effects_of(
    setting: Setting, spec: StudySpec, observation: Observation, ranks: Sequence[RankState]
) -> tuple[Effect, ...]:
    """The verdict on each knob; if ``/proc`` does not show it, by what was read back."""
    seen_effects = effects(setting, spec.knobs, observation, spec.machine, spec.environment)
    return tuple(_by_read_back(effect, ranks) for effect in seen_effects)


def _by_read_back(effect: Effect, ranks: Sequence[RankState]) -> Effect:
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
    """Whether both are the same value; numbers may be read as text, and as another type's text."""
    with suppress(ValueError):  # it is no number
        return float(read) == float(requested)
    return read == requested
