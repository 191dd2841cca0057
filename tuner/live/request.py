"""One measurement of a setting, as the study asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.launch.trial import ignore
from tuner.model import Launch, LaunchRecord, Progress, Purpose, Setting, StudySpec
from tuner.search.stopper import EarlyStopper


def never() -> bool:
    """Nobody ends the measurement."""
    return False


@dataclass(frozen=True)
class MeasurementRequest:
    """What to measure.

    Attributes:
        number: That of the record which this becomes.
        launch: The setting rendered: what to start, unless a running job can be switched to it.
        spec: The study.
        setting: What the launch was rendered from.
        purpose: What it is measured for.
        records: The launches of the study so far.
        incumbent_s: The figure of the best setting so far; ``None`` before there is one.
        stopper: Asked often; stops the setting once it cannot win any more.
        on_progress: Called as it goes on: with each new entry of a launch's log; with a window's
            iterations as if they were that.
        cancelled: Asked often too; True ends it as interrupted.
    """

    number: int
    launch: Launch
    spec: StudySpec
    setting: Setting
    purpose: Purpose = Purpose.SEARCH
    records: tuple[LaunchRecord, ...] = ()
    incumbent_s: float | None = None
    stopper: EarlyStopper | None = None
    on_progress: Callable[[Progress], None] = ignore
    cancelled: Callable[[], bool] = never
