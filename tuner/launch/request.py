"""What is measured next: one setting, by a launch of its own or in a window of a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Launch, LaunchRecord, Progress, Purpose, Setting, StudySpec
from tuner.search.stopper import EarlyStopper


@dataclass(frozen=True)
class MeasurementRequest:
    """One measurement of a setting, as the study asks for it.

    A launch of its own needs no number, purpose or records: they say whether a running job can
    take its place.

    Attributes:
        launch: The setting rendered: what to start. Its folder holds nothing of another launch, and
            is made if missing.
        spec: The study, for its objective, knobs, machine and rank count.
        setting: What the launch was rendered from.
        number: That of the record which the measurement becomes.
        purpose: What it is measured for.
        records: The launches of the study so far.
        incumbent_s: The figure of the best setting so far; ``None`` before there is one.
        expected_iterations: The most iterations that a run did so far, if there was one. A launch
            whose log ends sooner has failed.
        stopper: Asked often; stops the setting once it cannot win any more.
        on_progress: Called as it goes on: with each new entry of a launch's log; with a window's
            iterations as if they were that.
        cancelled: Asked often too; True ends it as interrupted.
    """

    launch: Launch
    spec: StudySpec
    setting: Setting
    number: int = 0
    purpose: Purpose = Purpose.SEARCH
    records: tuple[LaunchRecord, ...] = ()
    incumbent_s: float | None = None
    expected_iterations: int | None = None
    stopper: EarlyStopper | None = None
    on_progress: Callable[[Progress], None] = lambda _: None
    cancelled: Callable[[], bool] = lambda: False
