"""Whether a window may go on: the judge of a cold launch, shown the window as such a launch. Pure.

The judge (:mod:`tuner.search.stopper`) reads a log of elapsed times and forecasts the end of the
run. The iterations that count make that log (`FullRunModel.log`), one entry each. Fewer than it
takes for a figure may still be slow for coming first: they are one entry, of which the judge
allows for that. Not for all that a run begins with, which is over before a job takes orders; but
a loader fills up. And any one of them may hold what happens once (a compiler, a table that
grows): all are taken to be as quick as the quickest. Where the setting was going
tells the pace in any case.

An iteration that does not end may be ruinous, or hold something that is not the setting's: an
evaluation, a loader that starts its workers. Those end; so it is judged only before anything is
known of the setting, and only by what it takes beyond all that a full run has shown of such things.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.launch.clocks import Through
from tuner.live.scale import SILENT, FullRunModel, going
from tuner.live.windows import LEAST, LEAST_ENDED, LEAST_S, relative_error
from tuner.model import Stopped
from tuner.search.stopper import EarlyStopper, Log, Noise, ProjectionStopper

#: A window is judged by one or two iterations only after this, s.
PATIENCE_S = 3.0

#: One iteration may hold so many times what a whole run takes beyond its iterations.
EXCESS = 2.0

#: From so many iterations that count on a window is judged.
LEAST_JUDGED = 2

#: Of where a setting was going nothing is known worse than this, as the logarithm's deviation.
MOST_SD = 0.5

#: So many iterations more may the first one that counts behind a switch cost.
REFILL = 4.0


@dataclass(frozen=True)
class WindowJudge:
    """The judge of one window.

    Args:
        judge: That of the launch; ``None``: the window runs to its end.
        expected: What a full run is known to be.
        usual_s: The pace of the best setting so far, s; ``None``: none is known.
    """

    judge: EarlyStopper | None
    expected: FullRunModel
    usual_s: float | None

    def of(self, times_s: Sequence[float], passed_s: float, each: int = 1) -> Stopped | None:
        """By the iterations that count.

        Args:
            times_s: How long they took, without those thrown away.
            passed_s: Since the switch.
            each: So many iterations each time stands for, as their mean.
        """
        took_s = each * math.fsum(times_s)
        if len(times_s) >= LEAST and took_s >= LEAST_S:
            log = self.expected.log(times_s, each)
            return self._going(self._asked(log, log[-1][1]), times_s)
        enough = len(times_s) >= LEAST_JUDGED and took_s >= LEAST_S
        if enough or (times_s and passed_s >= PATIENCE_S):
            made = each * len(times_s)
            return self._going(self._by_first_ones(made, made * min(times_s), REFILL), times_s)
        return None

    def _going(self, found: Stopped | None, times_s: Sequence[float]) -> Stopped | None:
        """The verdict, with where it was going told by the pace of these iterations."""
        if found is None:
            return None
        projection_s = self.expected.figure_s(math.fsum(times_s) / len(times_s))
        error = relative_error(times_s)
        sd = max(found.log_sd, error if error < MOST_SD else MOST_SD)
        return replace(going(found, projection_s), log_sd=sd)

    def of_silence(self, times_s: Sequence[float], silent_s: float, coming: int) -> Stopped | None:
        """By the time since the job was last heard of.

        Args:
            times_s: As for :meth:`of`.
            silent_s: So long.
            coming: So many iterations will be told of next.
        """
        if self.usual_s is None or len(times_s) >= LEAST_ENDED:
            return None
        excess_s = EXCESS * self.expected.excess.at_s(self.usual_s)
        beyond_s = silent_s - PATIENCE_S - excess_s
        if beyond_s <= 0:
            return None
        took_s = len(times_s) * min(times_s, default=0.0) + beyond_s
        found = self._by_first_ones(len(times_s) + coming, took_s, math.inf)
        return None if found is None else replace(found, rule=SILENT)

    def _by_first_ones(self, iterations: int, took_s: float, most: float) -> Stopped | None:
        """By few: to the judge a log of one entry, in which those that come first may be slow."""
        clock_s = self.expected.clock_s(took_s)
        return self._asked([(iterations, clock_s)], clock_s, most)

    def _asked(self, log: Log, bound_s: float, most: float = math.inf) -> Stopped | None:
        """The judge's verdict; the first iteration costs at most so many more than others."""
        judge = self.judge.judge if isinstance(self.judge, Through) else self.judge
        if judge is None:
            return None
        if isinstance(judge, ProjectionStopper):
            judge = replace(judge, noise=_of_single(judge.noise, most))
        verdict = judge(log, bound_s, 0.0)
        return verdict if isinstance(verdict, Stopped) else None


def _of_single(noise: Noise, most: float) -> Noise:
    """What is known of a log's intervals, for one that has an entry for each iteration."""
    cv = noise.pace_cv * math.sqrt(noise.interval or 1)
    first, usual = min(noise.warm_up_iterations, most), min(noise.warm_up_typical, most)
    return replace(noise, pace_cv=cv, interval=1, warm_up_iterations=first, warm_up_typical=usual)
