"""Whether a window may go on: the stopper of a launch, shown the window as such a launch. Pure.

The stopper (:mod:`tuner.search.stopper`) reads a log of elapsed times and forecasts the end of the
run. The iterations that count make that log (`FullRunModel.log`), one entry each. Too few
iterations for an estimate may be slow only because they came first. They form one log entry, with
an allowance for that: not for all that a run begins with, which is over before a job accepts
switches, but a loader fills up. And any one of them may hold what happens once (a compiler, a
table that grows): all are taken to be as quick as the quickest. The projection follows from the
pace in any case.

An iteration that does not end may be ruinous, or hold something that is not the setting's: an
evaluation, a loader that starts its workers. Those end. So the stopper is asked only before
anything is known of the setting, and only about what exceeds all that a full run has shown of such
things.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.launch.clocks import Through
from tuner.live.scale import SILENT, FullRunModel, with_projection
from tuner.live.windows import LEAST, LEAST_ENDED, LEAST_S, relative_error
from tuner.model import Stopped
from tuner.search.stopper import EarlyStopper, Log, ProjectionStopper

#: A window is stopped for one or two iterations only after this, s.
PATIENCE_S = 3.0

#: One iteration may hold this many times what a whole run takes beside its iterations.
EXCESS = 2.0

#: A window is stopped from this many iterations that count on.
LEAST_STOPPED = 2

#: No projection is less certain than this, as the logarithm's deviation.
MOST_SD = 0.5

#: The first iteration that counts after a switch may cost as much as this many more.
REFILL = 4.0


@dataclass(frozen=True)
class WindowStopper:
    """The stopper of one window.

    Args:
        stopper: That of the launch; ``None``: the window runs to its end.
        model: What is known of a full run.
        usual_s: The pace of the best setting so far, s; ``None``: none is known.
    """

    stopper: EarlyStopper | None
    model: FullRunModel
    usual_s: float | None

    def by_times(self, times_s: Sequence[float], passed_s: float, each: int = 1) -> Stopped | None:
        """By the iterations that count.

        Args:
            times_s: How long they took, without the discarded ones; means of `each` iterations.
            passed_s: The time since the switch.
            each: How many iterations each time stands for.
        """
        took_s = each * math.fsum(times_s)
        if len(times_s) >= LEAST and took_s >= LEAST_S:
            log = self.model.log(times_s, each)
            stopped = self._asked(log, log[-1][1])
        elif (len(times_s) >= LEAST_STOPPED and took_s >= LEAST_S) or (
            times_s and passed_s >= PATIENCE_S
        ):
            made = each * len(times_s)
            stopped = self._by_first_ones(made, made * min(times_s), REFILL)
        else:
            return None
        if stopped is None:
            return None
        projection_s = self.model.figure_s(math.fsum(times_s) / len(times_s))
        log_sd = max(stopped.log_sd, min(relative_error(times_s), MOST_SD))
        return replace(with_projection(stopped, projection_s), log_sd=log_sd)

    def by_silence(self, times_s: Sequence[float], silent_s: float, coming: int) -> Stopped | None:
        """By the time since the last message of the job.

        Args:
            times_s: As for :meth:`by_times`.
            silent_s: That time.
            coming: The next message will hold so many iterations.
        """
        if self.usual_s is None or len(times_s) >= LEAST_ENDED:
            return None
        beyond_s = silent_s - PATIENCE_S - EXCESS * self.model.overhead.at_s(self.usual_s)
        if beyond_s <= 0:
            return None
        took_s = len(times_s) * min(times_s, default=0.0) + beyond_s
        stopped = self._by_first_ones(len(times_s) + coming, took_s, math.inf)
        return None if stopped is None else replace(stopped, rule=SILENT)

    def _by_first_ones(self, iterations: int, took_s: float, most: float) -> Stopped | None:
        """By a log of one entry; the first of its iterations may cost so many more."""
        clock_s = self.model.clock_s(took_s)
        return self._asked([(iterations, clock_s)], clock_s, most)

    def _asked(self, log: Log, bound_s: float, most: float = math.inf) -> Stopped | None:
        stopper = self.stopper.stopper if isinstance(self.stopper, Through) else self.stopper
        if stopper is None:
            return None
        if isinstance(stopper, ProjectionStopper):
            # The noise of a log with an entry for each iteration.
            noise = stopper.noise
            single = replace(
                noise,
                pace_cv=noise.pace_cv * math.sqrt(noise.interval or 1),
                interval=1,
                warm_up_iterations=min(noise.warm_up_iterations, most),
                warm_up_typical=min(noise.warm_up_typical, most),
            )
            stopper = replace(stopper, noise=single)
        verdict = stopper(log, bound_s, 0.0)
        return verdict if isinstance(verdict, Stopped) else None
