"""Follows a running launch, and stops it: on request, at a limit, by its stopper, if it hangs.

`LaunchMonitor.follow` checks these in turn; stoppers are in :mod:`tuner.search.stopper`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tuner.hosts import process, stacks
from tuner.hosts.activity import MOST_S
from tuner.hosts.launch_observer import LaunchObserver
from tuner.launch.hang_detector import HangDetector, may_be_elsewhere
from tuner.launch.objectives import Objective
from tuner.launch.request import MeasurementRequest
from tuner.model import Failed, FailureKind, Progress, Stopped
from tuner.search.throughput import began_before, startup_s

#: How often the reasons to stop are checked, s. The end of the launch itself wakes us.
TICK_S = 0.1
#: The usual time between two looks at the ranks, s; shorter at the start of a launch.
SAMPLE_S = 0.5
#: The share of one core that all looks may take. If one costs much (a host with thousands of
#: processes), they become rarer.
SAMPLE_SHARE = 0.01
#: The usual time between two looks at whether the job lives, s; shorter with a low limit.
HANG_CHECK_S = 1.0
HANG_CHECKS = 10  # so many are made within the limit
LEAST_LOOKS = 3  # so many are made within the limit, whatever a look costs

#: A launch that prints more is ended, bytes: no program prints as much on purpose.
MOST_OUTPUT_BYTES = 1 << 30
#: A log that is so far ahead of its running launch goes on from an earlier run, s.
AHEAD_S = 5.0
#: The stopper gets at most this many entries of a log, evenly spaced: more say the same.
STOPPER_ENTRIES = 200

#: How a launch ended, and the reason if we ended it.
Ended = tuple[process.Exit, Failed | Stopped | None]


@dataclass
class LaunchMonitor:
    """Waits for the end of a launch, or stops it for a reason."""

    request: MeasurementRequest
    running: process.RunningCommand
    observer: LaunchObserver
    objective: Objective

    def __post_init__(self) -> None:
        self.progress: tuple[Progress, ...] = ()
        #: How many messages the job has sent, beside its log and its output.
        self.messages = 0
        #: Gives how long the launch has run, without its pauses, s.
        self._clock_s = self.running.running_s
        self._started_s = self._looked_s = self._clock_s()
        self._look_cost_s = 0.0  # what the last look took of a CPU
        self._most_between_looks_s = math.inf
        self._hang_detector: HangDetector | None = None
        self.observer.follow(self.running.pids)
        if self.request.spec.stall_limit_s is not None:
            self.watch(self.request.spec.stall_limit_s)

    def follow(self, done: Callable[[], bool] = lambda: False) -> Ended | None:
        """Wait for the end, or stop the launch for the first reason that holds.

        ``None``: the launch runs on, since ``done``, which is called often, was true.
        """
        while not done():
            limit_s = self.request.launch.limit_s
            tick_s = TICK_S if limit_s is None else max(0.0, min(TICK_S, limit_s - self.passed_s))
            exit_ = self.running.wait(tick_s)
            if exit_ is not None:
                return exit_, None
            reason: Failed | Stopped | None = None
            if self.request.cancelled():
                reason = Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
            elif limit_s is not None and self.passed_s >= limit_s:
                text = f"not done within its limit of {limit_s:g} s"
                reason = Failed(FailureKind.LIMIT, text)
            else:
                self.report_progress()
                reason = self._by_stopper() or self.look()
            if reason is not None:
                return self.stop(reason)
        return None

    @property
    def passed_s(self) -> float:
        """Seconds since the launch was started, without its pauses."""
        return self._clock_s() - self._started_s

    def stop(self, reason: Failed | Stopped) -> Ended:
        """End the launch for this reason, if it has not ended by itself just then."""
        exit_ = self.running.stop()
        return exit_, reason if exit_.stopped else None

    def watch(self, limit_s: float) -> None:
        """Take the launch for one that hangs if from now on nothing happens for this long."""
        # A rank that is not seen has ended, and the others may wait for it, unless it may run on a
        # host that is not looked at.
        layout, env = self.request.spec.layout, self.request.launch.env
        sees_all_ranks = not (layout.is_local and may_be_elsewhere(env))
        expected_ranks = 0 if sees_all_ranks else layout.ranks
        self._hang_checked_s = self._clock_s()
        self._hang_check_s = min(HANG_CHECK_S, limit_s / HANG_CHECKS)
        self._most_between_looks_s = limit_s / LEAST_LOOKS
        computes = partial(self.observer.computes, most_s=min(MOST_S, self._hang_check_s))
        self._hang_detector = HangDetector(limit_s, expected_ranks, computes)

    def look_afresh(self) -> None:
        """Forget what was seen of the ranks so far: a window shows them with its own setting."""
        self._looked_s = self._clock_s()
        self.observer.begin()

    def _by_stopper(self) -> Stopped | None:
        if self.request.stopper is None or began_before(self.progress, self.passed_s, AHEAD_S):
            return None
        step = len(self.progress) // STOPPER_ENTRIES + 1
        entries = self.progress[::-step][::-1]  # the last entry is always among them
        log = [(entry.iteration, entry.elapsed_s) for entry in entries]
        verdict = self.request.stopper(log, self.passed_s, startup_s(self.progress))
        return verdict if isinstance(verdict, Stopped) else None

    def report_progress(self) -> None:
        """Read the log and hand on the entries that are new, with the moment they were seen."""
        before, entries = self.progress, self.objective.progress(self.request.launch.out_dir)
        unchanged = 0  # so many entries, from the first on
        for old, new in zip(before, entries, strict=False):
            if (old.iteration, old.elapsed_s) != (new.iteration, new.elapsed_s):
                break
            unchanged += 1
        now_s = self.passed_s
        new_entries = (replace(entry, seen_s=now_s) for entry in entries[unchanged:])
        self.progress = (*before[:unchanged], *new_entries)
        if began_before(self.progress, now_s, AHEAD_S):
            return  # nobody is to take the time of an earlier run for that of this launch
        for entry in self.progress[len(before) :]:
            self.request.on_progress(entry)

    def look(self) -> Failed | None:
        """Look at the processes if it is time to; return why the launch must end, if it must."""
        now_s = self._clock_s()
        # A short program is seen early, a long one is looked at rarely.
        usual_s = min(SAMPLE_S, max(TICK_S, (now_s - self._started_s) / 4))
        cheap_s = min(self._look_cost_s / SAMPLE_SHARE, self._most_between_looks_s)
        if now_s - self._looked_s < max(usual_s, cheap_s):
            return None
        self._looked_s = now_s
        cpu_before_s = time.thread_time()
        sample_s = self.observer.sample()
        failure = self._prints_too_much_or_hangs(now_s)
        self._look_cost_s = max(sample_s, time.thread_time() - cpu_before_s)
        return failure

    def _prints_too_much_or_hangs(self, now_s: float) -> Failed | None:
        """Return why the launch must end, if it must; if it hangs, the stacks are kept."""
        size_bytes = self.output_bytes()
        if size_bytes > MOST_OUTPUT_BYTES:
            limit = f"{MOST_OUTPUT_BYTES >> 30} GiB"
            return Failed(FailureKind.CRASHED, f"it printed more than {limit}")
        if self._hang_detector is None or now_s - self._hang_checked_s < self._hang_check_s:
            return None
        self._hang_checked_s = now_s
        elapsed_s = self.progress[-1].elapsed_s if self.progress else None
        signs_of_life = (len(self.progress), elapsed_s, self.messages, size_bytes)
        failure = self._hang_detector.look(now_s, signs_of_life, self.observer.activities())
        if failure is None or failure.kind is not FailureKind.STALLED:
            return failure
        return replace(failure, reason=f"{failure.reason}; {self.keep_stacks()}")

    def keep_stacks(self) -> str:
        """Keep the stacks of the ranks in the launch's folder, and return in words where."""
        return stacks.keep(self.request.launch.folder / stacks.FOLDER, self.observer.stacks())

    def output_bytes(self) -> int:
        """Return how much the launch has printed."""
        try:
            return (self.request.launch.folder / process.OUTPUT).lstat().st_size
        except OSError:
            return 0
