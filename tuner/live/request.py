"""What one measurement is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.launch.trial import ignore
from tuner.live.fixed_overhead import FixedOverhead
from tuner.live.scale import FullRunModel
from tuner.model import Launch, Progress, Setting, StudySpec
from tuner.search.stopper import EarlyStopper


def never() -> bool:
    """Nobody ends the measurement."""
    return False


_UNKNOWN = FullRunModel(0, FixedOverhead(0.0))


@dataclass(frozen=True)
class MeasurementRequest:
    """What is to be measured.

    Attributes:
        number: That of the record which this becomes.
        launch: The setting rendered: what to start where no running job fits it.
        spec: The study.
        setting: What the launch was rendered from.
        expected: What a full run is known to be; of a launch of its own that matters to nobody.
        judge: Asked often; leaves a setting once it cannot win any more.
        on_progress: Called as it goes on: with each new entry of a launch's log; with a window's
            iterations as if they were that.
        cancelled: Asked often too; True ends it as interrupted.
        since_s: When the time for it began, by the clock of what measures.
    """

    number: int
    launch: Launch
    spec: StudySpec
    setting: Setting
    expected: FullRunModel = _UNKNOWN
    judge: EarlyStopper | None = None
    on_progress: Callable[[Progress], None] = ignore
    cancelled: Callable[[], bool] = never
    since_s: float = 0.0
