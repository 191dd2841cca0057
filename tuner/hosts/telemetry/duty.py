"""When something that costs CPU time may be done again, so that it stays below its share."""

from __future__ import annotations


class Duty:
    """A purse that fills as time passes and pays for each turn afterwards.

    Over any stretch of time the turns cost at most ``share`` of it, and ``credit_s`` with the
    cost of one turn once.

    Args:
        share: Of one core.
        credit_s: So much is in the purse at first, and never more: the first turns come quickly.
    """

    def __init__(self, share: float, credit_s: float) -> None:
        self._share = share
        self._credit_s = credit_s
        self._purse_s = credit_s
        self._filled_s = 0.0
        self.next_s = 0.0

    def spend(self, now_s: float, cost_s: float, period_s: float) -> None:
        """Note what a turn cost that ends now; the next comes after the period or later.

        Args:
            now_s: Seconds that only go forward, from 0.
            cost_s: CPU time of the turn.
            period_s: The time to the next turn where money is no matter.
        """
        earned_s = (now_s - self._filled_s) * self._share
        self._purse_s = min(self._credit_s, self._purse_s + earned_s) - cost_s
        self._filled_s = now_s
        self.next_s = now_s + max(period_s, -self._purse_s / self._share)
