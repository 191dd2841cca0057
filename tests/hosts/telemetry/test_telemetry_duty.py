"""The share of a core that turns may cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.telemetry.recording import Duty

SHARE, CREDIT_S = 0.005, 0.003


@given(st.lists(st.floats(0.0001, 0.5), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_cost_stays_below_the_share(costs: list[float], period_s: float) -> None:
    """But for the credit and the turn that was last begun."""
    duty, now_s, spent_s = Duty(SHARE, CREDIT_S), 0.0, 0.0
    for cost_s in costs:
        now_s = max(now_s, duty.next_s)
        assert spent_s <= SHARE * now_s + CREDIT_S + 1e-9
        duty.spend(now_s, cost_s, period_s)
        spent_s += cost_s
        assert duty.next_s >= now_s + period_s


def test_what_is_cheap_comes_at_each_period() -> None:
    duty = Duty(SHARE, CREDIT_S)
    for turn in range(100):
        assert duty.next_s == turn * 0.5
        duty.spend(duty.next_s, 0.001, 0.5)


def test_what_was_saved_is_not_spent_at_once() -> None:
    duty = Duty(SHARE, CREDIT_S)
    duty.spend(10_000.0, 0.0, 0.5)
    duty.spend(10_000.5, CREDIT_S + 0.005, 0.5)
    assert duty.next_s >= 10_001.4
