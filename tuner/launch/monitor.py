"""Follows a running launch, and stops it: on request, at a limit, by its stopper, if it hangs.

`LaunchMonitor.follow` asks for each reason in turn; the stopper is :mod:`tuner.search.stopper`'s.
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
#: The usual time between two looks at whether the job lives, s; with a low limit more often.
HANG_CHECK_S = 1.0
HANG_CHECKS = 10  # this often within the limit
LEAST_LOOKS = 3  # this often within the limit, whatever a look costs

#: No program prints as much on purpose, and the disk is not ours alone, bytes.
MOST_OUTPUT = 1 << 30
#: A log that is so far ahead of its running launch goes on from an earlier run, s.
AHEAD_S = 5.0
#: The stopper is shown this many entries of a longer log, evenly spaced: they say the same.
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
        #: How long the launch has run, without its pauses, s.
        self._clock = self.running.running_s
        self._started_s = self._sampled_s = self._clock()
        self._look_s = 0.0
        self._rarest_s = math.inf  # the most time between two looks
        self._hang_detector: HangDetector | None = None
        self.observer.follow(self.running.pids)
        if self.request.spec.stall_limit_s is not None:
            self.watch(self.request.spec.stall_limit_s)

    def follow(self, done: Callable[[], bool] = lambda: False) -> Ended | None:
        """Wait for the end, or stop the launch for the first reason that holds.

        ``None``: it was left as it runs, since ``done``, which is asked often, said so.
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
                said = f"not done within its limit of {limit_s:g} s"
                reason = Failed(FailureKind.LIMIT, said)
            else:
                self.report_progress()
                reason = self._by_stopper() or self.look()
            if reason is not None:
                return self.stop(reason)
        return None

    @property
    def passed_s(self) -> float:
        """Seconds since it was started."""
        return self._clock() - self._started_s

    def stop(self, reason: Failed | Stopped) -> Ended:
        """End the launch for this reason, if it has not ended by itself just then."""
        exit_ = self.running.stop()
        return exit_, reason if exit_.stopped else None

    def watch(self, limit_s: float) -> None:
        """From now on the launch hangs if nothing happens for this long."""
        # A rank that is not seen has ended, and the others may wait for it, unless it may run on a
        # host that is not looked at.
        layout, env = self.request.spec.layout, self.request.launch.env
        sees_all_ranks = not (layout.is_local and may_be_elsewhere(env))
        ranks = 0 if sees_all_ranks else layout.ranks
        self._watched_s = self._clock()
        self._hang_check_s = min(HANG_CHECK_S, limit_s / HANG_CHECKS)
        self._rarest_s = limit_s / LEAST_LOOKS
        computes = partial(self.observer.computes, most_s=min(MOST_S, self._hang_check_s))
        self._hang_detector = HangDetector(limit_s, ranks, computes)

    def look_afresh(self) -> None:
        """Forget what was seen of the ranks so far."""
        self._sampled_s = self._clock()
        self.observer.begin()

    def _by_stopper(self) -> Stopped | None:
        if self.request.stopper is None or began_before(self.progress, self.passed_s, AHEAD_S):
            return None
        step = len(self.progress) // STOPPER_ENTRIES + 1
        some = self.progress[::-step][::-1]  # the last entry is always among them
        log = [(entry.iteration, entry.elapsed_s) for entry in some]
        verdict = self.request.stopper(log, self.passed_s, startup_s(self.progress))
        return verdict if isinstance(verdict, Stopped) else None

    def report_progress(self) -> None:
        """Read the log and hand on the entries that are new, with the moment they were seen."""
        before, entries = self.progress, self.objective.progress(self.request.launch.out_dir)
        same = 0
        for old, new in zip(before, entries, strict=False):
            if (old.iteration, old.elapsed_s) != (new.iteration, new.elapsed_s):
                break
            same += 1
        now_s = self.passed_s
        new_entries = (replace(entry, seen_s=now_s) for entry in entries[same:])
        self.progress = (*before[:same], *new_entries)
        if began_before(self.progress, now_s, AHEAD_S):
            return  # nobody is to take the time of an earlier run for that of this launch
        for step in self.progress[len(before) :]:
            self.request.on_progress(step)

    def look(self) -> Failed | None:
        """Look at the processes if it is time to; return why the launch must end, if it must."""
        now_s = self._clock()
        # A short program is seen early, a long one is looked at rarely.
        due_s = min(SAMPLE_S, max(TICK_S, (now_s - self._started_s) / 4))
        if now_s - self._sampled_s < max(due_s, min(self._look_s / SAMPLE_SHARE, self._rarest_s)):
            return None
        self._sampled_s = now_s
        before_s = time.thread_time()
        sample_s = self.observer.sample()
        wrong = self._watch(now_s)
        self._look_s = max(sample_s, time.thread_time() - before_s)
        return wrong

    def _watch(self, now_s: float) -> Failed | None:
        """Return whether it prints too much or hangs; then the stacks are kept."""
        size = self.output_bytes()
        if size > MOST_OUTPUT:
            return Failed(FailureKind.CRASHED, f"it printed more than {MOST_OUTPUT >> 30} GiB")
        if self._hang_detector is None or now_s - self._watched_s < self._hang_check_s:
            return None
        self._watched_s = now_s
        last = self.progress[-1:]
        elapsed_s = last[0].elapsed_s if last else None
        signs_of_life = (len(self.progress), elapsed_s, self.messages, size)
        wrong = self._hang_detector.look(now_s, signs_of_life, self.observer.activities())
        if wrong is None or wrong.kind is not FailureKind.STALLED:
            return wrong
        return replace(wrong, reason=f"{wrong.reason}; {self.keep_stacks()}")

    def keep_stacks(self) -> str:
        """Keep where the ranks stand, and return in words where that is."""
        return stacks.keep(self.request.launch.folder / stacks.FOLDER, self.observer.stacks())

    def output_bytes(self) -> int:
        """Return how much it has printed."""
        try:
            return (self.request.launch.folder / process.OUTPUT).lstat().st_size
        except OSError:
            return 0
