"""Runs two launches side by side: both are there, and at any moment one of them runs.

They take turns of a slice each, in the order A B B A. What else the machine does meanwhile slows
both, so that the ratio of their times has less noise than that of launches one after the other.

If the figure leaves out the pauses, the rest of the longer launch runs alone, and ends as soon as
its pace is known. If the program makes its figure of a clock that goes on in the pauses, the longer
one keeps them to its end: so both figures are longer by the same factor, if they are means or
totals of spans of many slices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tuner.hosts import process
from tuner.hosts.counters import CounterReader
from tuner.hosts.launch_observer import LaunchObserver
from tuner.launch.clocks import OtherSide, once_compared
from tuner.launch.objectives import objective_for
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import Observe, RunningLaunch, Start, begin, not_started
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Outcome, SideBySide
from tuner.search.stopper import EarlyStopper, FirstOf, Log, Verdict
from tuner.search.throughput import at_usual_pace, startup_s

#: The shortest and the longest slice, s; in between it is this share of how long a launch has run.
LEAST_S, MOST_S, SLICE_SHARE = 0.25, 1.0, 1 / 40
#: Slices are so many times as long if the pauses count in the figure: then it matters where in a
#: slice the span of the figure begins and ends.
SHORTER_TIMES = 0.4

#: Whatever was paused wakes for a moment when it goes on: it is looked at from then on, s.
AWAKE_S = 0.05


@dataclass
class OnceTheOtherHasEnded:
    """Stops a launch that goes on after the other one has ended, once it has shown enough.

    ``stopper`` may stop it at any time, ``at_the_end`` only after the other one has ended.
    """

    stopper: EarlyStopper | None
    at_the_end: EarlyStopper | None = None

    def __call__(self, log: Log, since_launch_s: float, startup_s: float | None, /) -> Verdict:
        """Return the verdict of the launch's own stopper, or of the other one if that is due."""
        stoppers = tuple(filter(None, (self.stopper, self.at_the_end)))
        return FirstOf(stoppers)(log, since_launch_s, startup_s)

    def in_window(self) -> EarlyStopper:
        """Return the stopper itself: a pair has no windows."""
        return self


class _Side:
    """One launch of the two."""

    def __init__(self, request: MeasurementRequest) -> None:
        self.stopper = OnceTheOtherHasEnded(request.stopper)
        self.request = replace(request, stopper=self.stopper)
        #: Whether the figure is made of a clock that goes on in the pauses.
        self.keeps_its_pauses = not objective_for(request.spec.objective).leaves_out_pauses
        self.running: RunningLaunch | None = None
        self.outcome: Outcome | None = None
        #: From when to when it ran, s after the pair began.
        self.slices: list[tuple[float, float]] = []
        #: How many threads of other programs wanted a CPU at the end of each slice.
        self.neighbours: list[int | None] = []
        #: How often it was looked at, at how many looks none of its threads wanted one, and at how
        #: many of these nor at the look before.
        self.looks = self.idle_looks = self.long_idle_looks = 0
        self._was_idle = False

    def look(self) -> None:
        """Look whether something of the launch runs or waits for a CPU."""
        assert self.running is not None
        wants_cpu = self.running.monitor.observer.wants_cpu()
        if wants_cpu is not None:
            self.looks += 1
            self.idle_looks += not wants_cpu
            self.long_idle_looks += self._was_idle and not wants_cpu
            self._was_idle = not wants_cpu


def run(
    requests: Sequence[MeasurementRequest],
    *,
    start: Start = process.start,
    observe: Observe = LaunchObserver.of,
) -> list[Outcome]:
    """Run two launches side by side, each until it ends or its pace is known; the first begins.

    Wall times are without the pauses. If one of them fails, the other one is ended. Whatever is
    raised, as by :func:`tuner.launch.trial.begin`, goes on only after both have been ended.
    """
    sides = [_Side(request) for request in requests]
    pair_began_s, counters = time.monotonic(), CounterReader()
    is_local = all(request.spec.layout.is_local for request in requests)
    with ExitStack() as stack:
        for turn, slice_s in _turns(any(side.keeps_its_pauses for side in sides)):
            side, other = sides[turn], sides[1 - turn]
            if side.outcome is not None and other.outcome is not None:
                break
            if side.outcome is not None:
                if other.keeps_its_pauses:
                    time.sleep(slice_s)
                continue
            began_s = time.monotonic()
            if side.running is not None:
                side.running.monitor.running.resume()
            elif side.request.cancelled():
                side.outcome = not_started(FailureKind.INTERRUPTED, "ended by the user")
            elif isinstance(launch := begin(side.request, start=start, observe=observe), Outcome):
                side.outcome = launch
            else:
                side.running = launch
                stack.callback(launch.monitor.running.stop)
            if side.running is not None and side.outcome is None:
                _run_slice(side, other, began_s + slice_s)
            side.slices.append((began_s - pair_began_s, time.monotonic() - pair_began_s))
            # Threads that run or wait for a CPU beside this one, while both launches pause.
            runnable = counters.look().runnable if is_local else None
            side.neighbours.append(None if runnable is None else max(0, runnable - 1))
            if side.outcome is not None and isinstance(side.outcome.ending, Failed):
                _end_beside(other, side.outcome.ending)
    return [_outcome(side, other) for side, other in (sides, sides[::-1])]


def _turns(keep_pauses: bool) -> Iterator[tuple[int, float]]:
    """Yield whose turn it is, A B B A A B B A …, and how long the slice is; four are alike."""
    began_s, times = time.monotonic(), SHORTER_TIMES if keep_pauses else 1.0
    while True:
        ran_s = (time.monotonic() - began_s) / 2  # each of the two launches
        slice_s = times * min(max(LEAST_S, SLICE_SHARE * ran_s), MOST_S)
        for turn in (0, 1, 1, 0):
            yield turn, slice_s


def _run_slice(side: _Side, other: _Side, end_s: float) -> None:
    """Let a side run until its slice or the launch is over, and pause a launch that goes on."""
    running = side.running
    assert running is not None
    if other.outcome is not None and not side.keeps_its_pauses:
        end_s = math.inf  # the rest of the longer launch runs alone
    first_look_s = time.monotonic() + AWAKE_S

    def look_and_say_if_over() -> bool:
        if time.monotonic() >= first_look_s and math.isfinite(end_s):
            side.look()
        return time.monotonic() >= end_s

    side.outcome = running.outcome(look_and_say_if_over, is_recorded=False)
    if side.outcome is None:
        running.monitor.running.pause()
    elif isinstance(side.outcome.ending, Finished) and not side.keeps_its_pauses:
        request = other.request
        own_launches = [r.outcome for r in request.records if r.setting == request.setting]
        startups_s = [startup_s(outcome.progress) or 0.0 for outcome in own_launches]
        other.stopper.at_the_end = once_compared(
            request.spec.objective.clock,
            request.expected_iterations,
            OtherSide(
                max([side.outcome.wall_s, *startups_s]),
                side.outcome.ending.elapsed_s,
                at_usual_pace(side.outcome.progress),
            ),
        )


def _end_beside(side: _Side, failure: Failed) -> None:
    """End the launch of a side, as the other one has failed: nothing is left to compare."""
    if side.outcome is not None:
        return
    is_interrupted = failure.kind is FailureKind.INTERRUPTED
    reason = failure.reason if is_interrupted else "ended, as the launch beside it had failed"
    if side.running is None:
        side.outcome = not_started(FailureKind.INTERRUPTED, reason)
    else:
        side.outcome = side.running.outcome_of_stop(Failed(FailureKind.INTERRUPTED, reason))


def _without_pauses(ending: Finished, share: float, objective: ObjectiveSpec) -> Finished:
    """Return the figure as if the program's clock had gone on for this share of the time only."""
    # What is maximized is a rate, in which the time is below the line.
    factor, reading = 1 / share if objective.maximize else share, ending.reading
    if reading is not None and reading.value is not None:
        reading = replace(reading, value=reading.value * factor)
    return replace(ending, elapsed_s=ending.elapsed_s * share, reading=reading)


def _running_share(sides: Sequence[_Side]) -> float:
    """Return for which share of their time the launches of the pair ran, of both together.

    The share of one alone also depends on how its start and its end lay to the slices, which its
    figure may leave out.
    """
    slices = [side.slices for side in sides if side.slices]
    ran_s = sum(end_s - begin_s for spans in slices for begin_s, end_s in spans)
    return ran_s / sum(spans[-1][1] - spans[0][0] for spans in slices)  # from first to last


def _outcome(side: _Side, other: _Side) -> Outcome:
    """Return the outcome of a side, as one of a pair.

    It has no load and no telemetry of the host: the other launch was there, and this one paused.
    """
    outcome = side.outcome
    assert outcome is not None
    ending = outcome.ending
    if isinstance(ending, Finished) and side.keeps_its_pauses:
        objective = side.request.spec.objective
        ending = _without_pauses(ending, _running_share((side, other)), objective)
    pair = SideBySide(
        other.request.number,
        tuple(side.slices),
        tuple(side.neighbours),
        side.looks,
        side.idle_looks,
        side.long_idle_looks,
    )
    return replace(outcome, ending=ending, load=None, telemetry=None, side_by_side=pair)
