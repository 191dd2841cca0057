"""Two launches side by side: both are there, and at any moment one of them runs.

They take turns of a slice each, in the order A B B A. What else the machine does meanwhile, it does
to both, so that the ratio of their times has less noise than that of launches one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle

from tuner.hosts import process
from tuner.launch.request import MeasurementRequest
from tuner.launch.trial import RunningLaunch, begin
from tuner.model import Failed, FailureKind, Launch, Outcome


@dataclass(frozen=True)
class Slice:
    """A time in which one of two launches ran.

    Attributes:
        side: Which of the two: 0 or 1.
        begin_s: When it began, by ``time.monotonic``.
        end_s: When it ended.
    """

    side: int
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Pair:
    """What two launches came to, and their slices; wall times are without the pauses."""

    outcomes: tuple[Outcome, Outcome]
    slices: tuple[Slice, ...]


def run(
    requests: Sequence[MeasurementRequest],
    *,
    slice_s: float,
    first: int = 0,
    start: Callable[[Launch], process.RunningCommand] = process.start,
) -> Pair:
    """Run two launches side by side, both to their end; the rest of the longer one runs alone.

    Whatever is raised goes on only after both have been ended.

    Args:
        requests: What to run: two.
        slice_s: How long a launch runs until it is the other one's turn, s.
        first: Which of them begins.
        start: Starts a launch.

    Raises:
        TunerError: See :func:`tuner.launch.trial.begin`.
    """
    running: dict[int, RunningLaunch] = {}
    outcomes: dict[int, Outcome] = {}
    slices: list[Slice] = []
    with ExitStack() as stack:
        for turn in turns(first):
            if len(outcomes) == len(requests):
                break
            side = 1 - turn if turn in outcomes else turn
            is_alone = 1 - side in outcomes
            if slices and slices[-1].side != side and slices[-1].side not in outcomes:
                running[slices[-1].side].monitor.running.pause()
            begin_s = time.monotonic()
            if side in running:
                running[side].monitor.running.resume()
            elif requests[side].cancelled():
                failed = Failed(FailureKind.INTERRUPTED, "ended by the user")
                outcomes[side] = Outcome(failed, wall_s=0.0, exit_code=None)
                continue
            else:
                begun = begin(requests[side], start=start)
                if isinstance(begun, Outcome):
                    outcomes[side] = begun
                    continue
                running[side] = begun
                stack.callback(begun.monitor.running.stop)
            end_s = begin_s + slice_s
            outcome = running[side].outcome_of_slice(
                lambda end_s=end_s, is_alone=is_alone: not is_alone and time.monotonic() >= end_s  # type: ignore[misc]
            )
            slices.append(Slice(side, begin_s, time.monotonic()))
            if outcome is not None:
                outcomes[side] = outcome
    return Pair((outcomes[0], outcomes[1]), tuple(slices))


def turns(first: int) -> Iterator[int]:
    """Yield whose turn it is: A B B A A B B A …"""
    return cycle((first, 1 - first, 1 - first, first))
