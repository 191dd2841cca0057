"""What one measurement is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.model import Launch, Progress, Setting, StudySpec
from tuner.racing import Judge
from tuner.retune.scale import Expected


@dataclass(frozen=True)
class Asked:
    """What is to be measured: the arguments of :meth:`tuner.retune.jobs.LiveJobs.measure`.

    ``since_s`` is when the time for it began.
    """

    number: int
    launch: Launch
    spec: StudySpec
    setting: Setting
    expected: Expected
    judge: Judge | None
    on_progress: Callable[[Progress], None]
    cancelled: Callable[[], bool]
    since_s: float
