"""When the log is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import compat
from workloads.schedule import IntervalOrEnd, log_interval

compat.install()


def fired(period: tuple[float, str], count: int, unit: str, per_epoch: int) -> list[int]:
    """The iterations in which a trigger fires in a whole run of Chainer's trainer."""
    from chainer.training import get_trigger

    stop = get_trigger((count, unit))
    trigger = IntervalOrEnd(get_trigger(period), count, unit)
    trainer: Any = SimpleNamespace(updater=SimpleNamespace(iteration=0, epoch_detail=0.0))
    hits = []
    while not stop(trainer):
        trainer.updater.iteration += 1
        trainer.updater.epoch_detail = trainer.updater.iteration / per_epoch
        if trigger(trainer):
            hits.append(trainer.updater.iteration)
    assert hits[-1] == trainer.updater.iteration
    return hits


@pytest.mark.parametrize(
    ("count", "writes", "expected"),
    [(1, 20, 1), (19, 20, 1), (25, 20, 1.25), (40, 20, 2), (100, 20, 5), (100, 1, 100)],
)
def test_the_interval_in_iterations(count: int, writes: int, expected: float) -> None:
    assert log_interval(count, "iteration", writes) == (expected, "iteration")


def test_the_interval_in_epochs_may_be_a_fraction() -> None:
    assert log_interval(1, "epoch", 20) == (0.05, "epoch")
    assert log_interval(20, "epoch", 20) == (1.0, "epoch")


@given(st.integers(1, 2000))
def test_twenty_writes_with_one_at_the_end(count: int) -> None:
    hits = fired(log_interval(count, "iteration", 20), count, "iteration", per_epoch=75)
    assert hits[-1] == count
    assert min(count, 20) <= len(hits) <= 21


@given(st.integers(1, 30), st.integers(1, 200))
def test_a_run_in_epochs_writes_at_most_that_often(epochs: int, per_epoch: int) -> None:
    hits = fired(log_interval(epochs, "epoch", 20), epochs, "epoch", per_epoch)
    assert hits[-1] == epochs * per_epoch
    assert min(epochs * per_epoch, 19) <= len(hits) <= 21


def test_a_run_shorter_than_an_epoch_fires_at_the_end_alone() -> None:
    assert fired((1, "epoch"), 25, "iteration", per_epoch=75) == [25]


def test_the_end_of_an_epoch_that_is_the_end_of_the_run_fires_once() -> None:
    assert fired((1, "epoch"), 2, "epoch", per_epoch=10) == [10, 20]


def test_a_run_that_goes_on_beyond_its_length_fires_there_once() -> None:
    from chainer.training import get_trigger

    trigger = IntervalOrEnd(get_trigger((10, "iteration")), 25, "iteration")
    trainer: Any = SimpleNamespace(updater=SimpleNamespace(iteration=0, epoch_detail=0.0))
    hits = []
    for iteration in range(1, 40):
        trainer.updater.iteration = iteration
        if trigger(trainer):
            hits.append(iteration)
    assert hits == [10, 20, 25, 30]
