"""What a launch costs where one running job measures many settings. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuner.model import Value
from tuner.search.space import Flags, Floats, Grid, Rows

#: Of a window that is stopped early so much is run all the same: what is thrown away after the
#: switch, and the iterations that show that it cannot win.
_CUT_SHARE = 0.5


@dataclass(frozen=True)
class Live:
    """A study in which jobs are retuned while they run.

    Attributes:
        knobs: Those that change in a running job.
        job: What runs now was started with, a value a knob in the space's order, ``None`` for
            a knob that it was started without; ``None``: nothing runs.
        startup_s: What the start of a job takes, s.
        switch_s: What a switch takes, s.
        share: What a window takes, s, for each unit of its setting's figure.
    """

    knobs: frozenset[str]
    job: tuple[Value | None, ...] | None
    startup_s: float
    switch_s: float
    share: float

    def fits(self, grid: Grid, rows: Rows) -> Flags:
        """Which rows can be measured in what runs now: those with the same values of all others."""
        if self.job is None:
            return np.zeros(len(rows), bool)
        out = np.ones(len(rows), bool)
        for j, knob in enumerate(grid.space.knobs):
            if knob.name in self.knobs:
                continue
            if self.job[j] not in knob.values:
                return np.zeros(len(rows), bool)
            out &= rows[:, j] == knob.values.index(self.job[j])
        return out

    def cost_s(self, fits: Flags, mean: Floats, stays: Floats, fails: Floats) -> Floats:
        """The expected seconds of each launch.

        Args:
            fits: Where what runs now serves; elsewhere a job is started.
            mean: Of the logarithm of the figure.
            stays: The chance that the window is not stopped early.
            fails: The chance of a failure. It takes about as long as a start to show, and the job
                is gone: the next one pays for that.
        """
        window_s = self.share * np.exp(mean) * (stays + (1 - stays) * _CUT_SHARE)
        entry_s = np.where(fits, self.switch_s, self.startup_s)
        return np.asarray(entry_s + window_s + 2 * fails * self.startup_s)
