"""When a trainer's extensions run: at an interval, and always at the end."""

from __future__ import annotations

from typing import Any, Protocol


class _Updater(Protocol):
    iteration: int
    epoch_detail: float


class TrainerLike(Protocol):
    """What a trigger reads of a Chainer trainer."""

    @property
    def updater(self) -> _Updater:
        """Counts iterations and epochs."""
        ...


def log_interval(count: int, unit: str, writes: int) -> tuple[float, str]:
    """The period that makes ``writes`` log entries in a run of ``count`` units.

    It may be a fraction (of iterations too: Chainer 7.8.1 takes them, though its text does
    not say so), but is at least one iteration.
    """
    period = count / writes
    return (max(1.0, period) if unit == "iteration" else period), unit


class IntervalOrEnd:
    """A Chainer trigger that fires at an interval and once more where the run's length is reached.

    Chainer's own stop trigger cannot be asked: it keeps state and fires only once. A run may go on
    beyond its length, in a study that changes settings while it runs.

    Args:
        interval: Chainer's trigger for the interval; it is asked at every call.
        count: Length of the run.
        unit: ``iteration`` or ``epoch``.
    """

    def __init__(self, interval: Any, count: int, unit: str) -> None:
        self._interval = interval
        self._count = count
        self._unit = unit
        self._over = False

    def __call__(self, trainer: TrainerLike) -> bool:
        """Whether to run the extension in this iteration."""
        due = bool(self._interval(trainer))
        updater = trainer.updater
        reached = updater.iteration if self._unit == "iteration" else updater.epoch_detail
        ends, self._over = not self._over and reached >= self._count, reached >= self._count
        return due or ends
