"""The request to measure one setting, by a launch of its own or in a window of a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Launch, LaunchRecord, Progress, Purpose, Setting, StudySpec
from tuner.search.stopper import EarlyStopper


@dataclass(frozen=True)
class MeasurementRequest:
    """One measurement of a setting, as the study asks for it.

    ``launch`` is the setting rendered; its folder holds nothing of another launch, and is made if
    missing. A launch of its own needs no number, purpose or records: they say whether a running job
    can take its place.
    """

    launch: Launch
    spec: StudySpec
    setting: Setting
    number: int = 0
    purpose: Purpose = Purpose.SEARCH
    records: tuple[LaunchRecord, ...] = ()
    #: The figure of the best setting so far.
    incumbent_s: float | None = None
    #: The most iterations that a run made so far: a launch whose log ends sooner has failed.
    expected_iterations: int | None = None
    #: Called often; stops the setting once it cannot win any more.
    stopper: EarlyStopper | None = None
    #: Called with each new entry of a launch's log, or of the log that a window would have.
    on_progress: Callable[[Progress], None] = lambda _: None
    #: Called often too; True ends the measurement as interrupted.
    cancelled: Callable[[], bool] = lambda: False
