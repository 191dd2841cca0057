"""Launches of one fixed setting: a round of `tune scale` is one more of each layout."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Purpose, Setting
from tuner.search import Done
from tuner.study.confirmation import FAILURES
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop


@dataclass
class FixedSetting(Policy):
    """``number`` launches of what a study fixes; see :class:`tuner.study.policy.Policy`."""

    number: int = 1
    is_warm: bool = False  # it was launched since this began

    def best(self, history: History) -> Setting:
        """The setting."""
        return history.spec.fixed

    def then(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return the setting again; not if it fails."""
        made = history.of(history.valid, history.pooling.canonical(history.spec.fixed))
        finished = sum(bool(record.outcome.samples) for record in made)
        if finished >= self.number or len(made) - finished >= FAILURES:
            return Stop(f"launched {finished} of {self.number} times")
        self.is_warm = True
        return Step(Purpose.RECORD, history.spec.fixed)
