"""By what the ranks of a program are told of changes, and why of some they are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.live_bench import probe_module

transport = probe_module("rank_live_transport")

SINGLE, FUNNELED, SERIALIZED, MULTIPLE = range(4)


class FakeMpi:
    """As much of ``mpi4py.MPI`` as is asked."""

    THREAD_SERIALIZED, THREAD_MULTIPLE = SERIALIZED, MULTIPLE

    def __init__(self, rank: int, size: int, level: int, *, main: bool = True) -> None:
        self.COMM_WORLD = SimpleNamespace(Get_rank=lambda: rank, Get_size=lambda: size)
        self.Query_thread = lambda: level
        self.Is_thread_main = lambda: main
        self.Is_initialized = lambda: True
        self.Is_finalized = lambda: False


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose in a rank of a launcher that says how many there are."""

    def chosen(mpi: FakeMpi | None, *, rank: int, size: int) -> Any:
        monkeypatch.setattr(transport.sys, "modules", {"mpi4py.MPI": mpi})
        monkeypatch.setattr(transport.rank_report, "launcher_size", lambda: size)
        return transport.choose(rank)

    return chosen


@pytest.mark.parametrize(
    ("level", "main"), [(SINGLE, True), (FUNNELED, True), (MULTIPLE, True), (MULTIPLE, False)]
)
def test_mpi_is_called_where_no_other_thread_may(choose: Any, level: int, main: bool) -> None:
    found = choose(FakeMpi(1, 2, level, main=main), rank=1, size=2)
    assert (found.name, found.rank, found.size) == ("mpi4py", 1, 2)


@pytest.mark.parametrize(("level", "main"), [(SERIALIZED, True), (FUNNELED, False)])
def test_it_is_left_alone_where_another_thread_may_call_it(
    choose: Any, level: int, main: bool
) -> None:
    with pytest.raises(transport.RefusedError, match="several threads"):
        choose(FakeMpi(1, 2, level, main=main), rank=1, size=2)


def test_a_world_that_is_not_the_launchers_is_named(choose: Any) -> None:
    with pytest.raises(transport.RefusedError, match="rank 3 of 4 is rank 1 of 2 to mpi4py"):
        choose(FakeMpi(1, 2, MULTIPLE), rank=3, size=4)


def test_one_rank_needs_nothing_and_more_need_something(choose: Any) -> None:
    assert choose(None, rank=0, size=1).name == "alone"
    assert choose(FakeMpi(0, 1, SERIALIZED), rank=0, size=1).name == "alone"
    with pytest.raises(transport.RefusedError, match="neither mpi4py nor"):
        choose(None, rank=0, size=2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is: only waiting lets it go on."""
    now = [0.0]

    def sleep(time_s: float) -> None:
        now[0] += time_s

    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def test_who_has_left_is_not_waited_for(clock: list[float]) -> None:
    looks = []

    def has_left() -> bool:
        looks.append(clock[0])
        return clock[0] > 5.0

    with pytest.raises(transport.SilentError):
        transport._until(lambda: False, 60.0, has_left)
    assert 5.0 < clock[0] < 6.0
    assert 10 < len(looks) < 60, "not in each turn"


def test_what_it_said_last_is_heard(clock: list[float]) -> None:
    transport._until(lambda: clock[0] > 5.1, 60.0, lambda: clock[0] > 5.0)


def test_who_is_there_is_waited_for_until_the_limit(clock: list[float]) -> None:
    with pytest.raises(transport.SilentError):
        transport._until(lambda: False, 60.0, lambda: False)
    assert 60.0 < clock[0] < 61.0
