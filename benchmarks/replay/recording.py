"""Measures every point of a space in turn, so that searches can be replayed on it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.knobs import space
from tuner.model import BASELINE, Failed, LaunchRecord, Purpose, Setting
from tuner.search import Done
from tuner.stats import evidence
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop

#: A point that failed so often, and never worked, is one that fails. One that works now and then
#: is left alone after as many failures as it should have runs.
FAILURES = 2


@dataclass(frozen=True)
class Recording(Policy):
    """``runs`` of each setting, and of the defaults; see :class:`tuner.study.policy.Policy`.

    Round by round, in another order each time: what drifts on the machine meets all alike.
    """

    runs: int

    def best(self, history: History) -> Setting | None:
        """The setting with the lowest median so far."""
        measured = history.measurements.values()
        best = evidence.best(each for each in measured if history.contains(each.setting))
        return best.setting if best else None

    def then(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return the setting that comes next in the first round that is not done."""
        finished, failed = self._counts(history)
        for number in range(self.runs):
            for setting in self._round(history, number):
                done = finished.get(setting, 0)
                most = max(FAILURES, self.runs) if done else FAILURES
                if done <= number and failed.get(setting, 0) < most:
                    return Step(Purpose.RECORD, setting)
        return Stop(f"every setting was measured {self.runs} times")

    def _round(self, history: History, number: int) -> list[Setting]:
        order = [BASELINE, *settings(history)]
        random.Random(f"{history.spec.seed}/{number}").shuffle(order)
        return order

    @staticmethod
    def _counts(history: History) -> tuple[dict[Setting, int], dict[Setting, int]]:
        finished: dict[Setting, int] = {}
        failed: dict[Setting, int] = {}
        for record in launches(history):
            setting = history.pooling.canonical(record.setting)
            counts = failed if isinstance(record.outcome.ending, Failed) else finished
            counts[setting] = counts.get(setting, 0) + 1
        return finished, failed


def launches(history: History) -> list[LaunchRecord]:
    """Those that were made to record: no search stopped them or chose their setting."""
    return [record for record in history.valid if record.purpose is Purpose.RECORD]


def settings(history: History) -> Iterator[Setting]:
    """Every setting that differs on this machine, as far as it was seen."""
    return space.points(history.distinct_knobs, history.requirements)
