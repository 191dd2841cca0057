"""Launches one fixed setting, and searches nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Purpose, Setting
from tuner.search import Done
from tuner.study.confirmation import FAILURES
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop


@dataclass
class FixedSetting(Policy):
    """Launch what the study fixes until it has ended `number` times, or failed twice."""

    number: int = 1
    is_warm: bool = False  # it was launched since this began

    def best(self, history: History) -> Setting:
        """Return the fixed setting."""
        return history.spec.fixed

    def then(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return one more launch of the fixed setting, or that there were enough."""
        launches = history.of(history.valid, history.pooling.canonical(history.spec.fixed))
        finished = sum(bool(record.outcome.samples) for record in launches)
        if finished >= self.number or len(launches) - finished >= FAILURES:
            return Stop(f"launched {finished} of {self.number} times")
        self.is_warm = True
        return Step(Purpose.RECORD, history.spec.fixed)
