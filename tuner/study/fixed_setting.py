"""Launches one fixed setting, and searches nothing."""

from __future__ import annotations

from tuner.model import Purpose, Setting
from tuner.search import Done
from tuner.study.history import History
from tuner.study.policy import Policy, Step


class FixedSetting(Policy):
    """Launch what the study fixes, as often as it is asked."""

    def best(self, history: History) -> Setting:
        """Return the fixed setting."""
        return history.spec.fixed

    def then(self, history: History, over: Done) -> Step:  # noqa: ARG002
        """Return one more launch of the fixed setting."""
        return Step(Purpose.RECORD, history.spec.fixed)
