"""Training beyond the program's own end."""

from __future__ import annotations

from tests.live_agent import FakeAgent
from tuner.live.client.until import Until


class Trigger:
    """Fires once, at a call of this number."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.unit = "epoch"

    def __call__(self, _: object) -> bool:
        self.left -= 1
        return self.left == 0


def stops(until: Until, calls: int) -> list[int]:
    return [number for number in range(1, calls + 1) if until(number)]


def test_nothing_more_is_wanted_the_own_end_counts() -> None:
    assert stops(Until(Trigger(3), lambda: False), 3) == [3]


def test_it_goes_on_while_more_is_wanted() -> None:
    agent = FakeAgent()
    agent.wanted = 4
    assert stops(Until(Trigger(3), agent.more), 7) == [7]


def test_what_is_wanted_before_the_end_delays_nothing() -> None:
    assert stops(Until(Trigger(3), lambda: True), 20) == []


def test_beyond_its_end_a_loop_ends_where_it_can() -> None:
    """Asked by epochs it must not end in the middle of one."""
    agent = FakeAgent()
    agent.wanted = 2

    def between(number: object) -> bool:
        return number == 10

    assert stops(Until(Trigger(3), agent.more, between), 10) == [10]


def test_others_see_the_programs_own_trigger() -> None:
    until = Until(Trigger(3), lambda: False)
    assert until.unit == "epoch"
    assert not hasattr(until, "serialize")


def test_the_own_end_is_told_before_more_is_asked_for() -> None:
    agent = FakeAgent()
    agent.wanted = 2
    assert stops(Until(Trigger(3), agent.more, over=agent.over), 5) == [5]
    assert agent.overs == 1
