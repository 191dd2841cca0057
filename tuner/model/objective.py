"""What is compared: how a launch's figure is read, and how it becomes a cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Units of time, in seconds: a figure in one of them is a time.
TIME_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

#: The key of a log that is its program's own clock, s.
CLOCK = "elapsed_time"

#: How the figure follows from the time of a running launch: it is the program's own clock at
#: its end, the launch's wall time, the clock's pace; ``none``: it does not.
Clock = Literal["elapsed", "wall", "steady", "none"]


@dataclass(frozen=True)
class ObjectiveSpec:
    """How a launch's figure of merit is read.

    The *figure* is what the program says, in the user's ``unit``. What is kept and compared is
    its *cost*, of which less is better: a time in seconds, another figure as it is, and of a
    rate (``maximize``) the reciprocal, which is the time for a unit of work. So ratios stay
    ratios: half the cost is twice the rate.
    """

    kind: str = "logreport"
    key: str = CLOCK
    filename: str | None = None  # below {out}; "log", or for a pattern what is printed
    loss_key: str = ""  # empty: the first of the usual ones that the log has
    statistic: str = "last"  # or "steady": seconds an iteration after the warm-up
    pattern: str = ""  # a regular expression with a group for the figure
    unit: str = ""  # of the figure, as it was asked for
    maximize: bool = False  # a larger figure is better

    @property
    def log(self) -> str:
        """The name of the log below ``{out}``, for what reads one."""
        return "log" if self.filename is None else self.filename

    @property
    def clock(self) -> Clock:
        """What of a launch's own time the figure is."""
        if self.kind == "wall":
            return "wall"
        if self.kind == "logreport" and self.statistic == "steady":
            return "steady"
        own = self.kind != "pattern" and not self.unit and not self.maximize
        return "elapsed" if own and (self.kind != "logreport" or self.key == CLOCK) else "none"

    @property
    def is_time(self) -> bool:
        """True if a cost is in seconds."""
        return self.clock != "none" or self.unit in TIME_UNITS_S

    def cost(self, figure: float) -> float:
        """What is compared of a figure above 0; see the class."""
        if self.maximize:
            return 1.0 / figure
        return figure * TIME_UNITS_S.get(self.unit, 1.0)

    def figure(self, cost: float) -> float:
        """The inverse of :meth:`cost`."""
        if self.maximize:
            return 1.0 / cost
        return cost / TIME_UNITS_S.get(self.unit, 1.0)


#: What is read where nobody says otherwise: the last ``elapsed_time`` of a LogReport, s.
LOGGED_TIME = ObjectiveSpec()
