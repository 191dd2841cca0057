"""Improves a job while it runs: in its first minutes a few other settings are tried, one by one.

Each is tried between two windows of the setting in force, and takes its place if it is faster than
both beyond their errors. A trial is broken off before it could cost too much: against the pace that
it began with the job loses at most `MOST_LOST_S`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

from tuner.hosts.probe import live_file
from tuner.live.job_server import JobServer, Steps, Switched, publish
from tuner.live.window_estimate import WindowEstimate, estimate

#: A job is improved in its first minutes, s, of which it may lose 1 %.
FIRST_S = 600.0
MOST_LOST_S = 0.01 * FIRST_S

#: The knobs that are halved and doubled, the most promising first.
KNOBS = ("omp_threads", "iterator_workers", "opencv_threads", "prefetch")

#: A window has at least so many iterations, and lasts at least so long, s.
LEAST_ITERATIONS, LEAST_S = 8, 1.0
#: It is over after so many if all of them are slower than the setting in force.
LEAST_ITERATIONS_TO_LOSE = 3
#: It ends once its relative standard error is this, or after so long, s.
ENOUGH_ERROR, LONGEST_S = 0.02, 20.0
#: A setting is faster if its pace differs by more than so many standard errors.
ERRORS = 3.0
#: What a switch takes, s, before one was seen, and how many times slower a setting may turn out.
SWITCH_S, SLOWEST_TIMES = 0.5, 8.0


class Learning:
    """Tries settings in a job on this host; call it often: it does what is due, and never waits.

    The job has so many ``ranks``, each with at most ``most_threads`` threads or workers, and needs
    the variables of ``environment``. ``say`` is told of each improvement. ``lost_s`` is what the
    job has lost against its first pace, s; negative: it won. Nothing is tried once it ``is_over``.
    """

    def __init__(
        self, ranks: int, most_threads: int, folder: Path, say: Callable[[str], None]
    ) -> None:
        self._say, self._most = say, most_threads
        self.environment = {"TUNE_LIVE_FILE": str(live_file(folder))}
        self.lost_s = 0.0
        self._first_pace_s = 0.0  # seconds an iteration
        self._began_s = self._heard_s = time.monotonic()
        self._times_s: list[float] = []  # of the iterations since the last switch
        self._switched: Switched | None = None
        self._switch_s, self.is_over = SWITCH_S, False
        self._server = JobServer(ranks, partial(publish, live_file(folder)), extends=False)
        self._server.listen()
        self._next_steps = self._learn()

    def __call__(self) -> str:
        """Go on if there is news of the job; return that there is no reason to end it."""
        if self._server.problem or self.is_over:
            return ""
        try:
            next(self._next_steps)
        except Exception:  # whatever it is, the job goes on without us
            self.is_over = True
            self._server.hang_up()
        return ""

    def close(self) -> None:
        """Close the connections, and remove the file for the ranks."""
        self._server.close()

    # --- what is done, step by step: each `yield` waits for the next call ---------------------

    def _learn(self) -> Generator[None]:
        """Climb: halve and double each knob for as long as the job becomes faster."""
        while self._server.hello is None:
            self._server.receive(timeout_s=0.0)
            yield
        can = self._server.hello.can
        in_force = {knob: n for knob in KNOBS if isinstance(n := can.get(knob), int) and n > 0}
        pace = yield from self._window()
        self._first_pace_s = pace.pace_s
        for knob, factor in ((knob, factor) for knob in in_force for factor in (0.5, 2.0)):
            while (value := int(factor * in_force[knob])) in range(1, self._most + 1):
                # A first look at a setting takes a switch, one back, and a few iterations.
                first_look_s = 2 * (self._switch_s + SLOWEST_TIMES * self._first_pace_s)
                is_late = time.monotonic() - self._began_s > FIRST_S
                if is_late or self.lost_s + first_look_s > MOST_LOST_S:
                    return
                faster = yield from self._trial(knob, in_force[knob], value, pace)
                if faster is None:
                    break
                times = pace.pace_s / faster.pace_s
                text = f"{knob} {in_force[knob]} -> {value}: {times:.2f} times faster"
                self._say(f"the running job goes on with {text}")
                in_force[knob], pace = value, faster

    def _trial(
        self, knob: str, old: int, new: int, before: WindowEstimate
    ) -> Generator[None, None, WindowEstimate | None]:
        """Try a value between two windows; return its pace if it is in force then: it is faster."""
        tried = None
        if (yield from self._switch(knob, new)):
            tried = yield from self._window(before.pace_s)
        yield from self._switch(knob, old)
        if tried is None or not is_faster(tried, before):
            return None
        if not is_faster(tried, (yield from self._window())):
            return None
        yield from self._switch(knob, new)
        return tried

    def _switch(self, knob: str, value: int) -> Generator[None, None, bool]:
        """Change a knob in all ranks; return whether each of them could."""
        ordered_s = time.monotonic()
        self._switched, self._times_s = None, []
        self._server.switch({knob: value})
        while self._switched is None:
            self._hear()
            yield
        self._switch_s = max(time.monotonic() - ordered_s, 0.5 * self._switch_s)
        return not any(rank.errors for rank in self._switched.ranks)

    def _window(self, rival_s: float = math.inf) -> Generator[None, None, WindowEstimate]:
        """Measure until the pace is known well enough, or more of it would cost too much.

        It ends at once if none of a few iterations is as fast as a rival's, s.
        """
        self._times_s, began_s = [], time.monotonic()
        while True:
            self._hear()
            window, wall_s = estimate(self._times_s), time.monotonic() - began_s
            is_long = window.iterations >= LEAST_ITERATIONS and wall_s >= LEAST_S
            is_known = is_long and (window.pace_se <= ENOUGH_ERROR or wall_s >= LONGEST_S)
            is_slow = len(self._times_s) >= LEAST_ITERATIONS_TO_LOSE
            is_slow = is_slow and min(self._times_s) > rival_s
            # A switch back takes the iteration under way, and one more in which the ranks meet.
            back_s = self._switch_s + 2 * max(self._times_s, default=0.0)
            if is_known or is_slow or self.lost_s + back_s > MOST_LOST_S:
                return window
            yield

    def _hear(self) -> None:
        """Note what has come of the job since the last call, and what it has lost meanwhile."""
        if not self._server.is_open:
            raise ConnectionError("the job has ended, or accepts no switches any more")
        now_s, messages = time.monotonic(), self._server.receive(timeout_s=0.0)
        lost_s, self._heard_s = now_s - self._heard_s, now_s
        for message in messages:
            if isinstance(message, Switched):
                self._switched = message
            elif isinstance(message, Steps):
                for _, time_s, is_marked in message.timings():
                    lost_s -= time_s if is_marked else self._first_pace_s
                    self._times_s += [] if is_marked else [time_s]
        if self._first_pace_s:
            self.lost_s += lost_s


def is_faster(one: WindowEstimate, other: WindowEstimate) -> bool:
    """Return whether one window is faster than another beyond their errors."""
    if min(one.iterations, other.iterations) < LEAST_ITERATIONS:
        return False
    errors_s = (window.pace_s * window.pace_se for window in (one, other))
    return other.pace_s - one.pace_s > ERRORS * math.hypot(*errors_s)
