"""Studies with running jobs, as their records tell of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.study_surface import ITERATIONS, SPEC, record
from tuner.model import (
    BASELINE,
    Ending,
    Exclusion,
    Finished,
    LaunchRecord,
    Outcome,
    Purpose,
    Setting,
    StudySpec,
    Value,
    Window,
)
from tuner.search.stopper import Noise
from tuner.study.history import History

LIVE = ("iterator_workers", "omp_threads")


def setting(threads: int = 1, workers: int = 1, **more: Value) -> Setting:
    """A setting of `SPEC`, or of a space with more knobs."""
    return Setting.of({"omp_threads": threads, "iterator_workers": workers, **more})


@dataclass
class Records:
    """Records as they come; times in seconds of a full run."""

    spec: StudySpec = SPEC
    live: tuple[str, ...] = LIVE
    records: list[LaunchRecord] = field(default_factory=list)
    job: int | None = None

    @property
    def history(self) -> History:
        """The study so far."""
        return History.judged(self.spec, tuple(self.records))

    def starts(self, chosen: Setting, value: float | Ending) -> Records:
        """A job is started, for its first window."""
        self.job = len(self.records) + 1
        return self.window(chosen, value)

    def window(self, chosen: Setting, value: float | Ending) -> Records:
        """A window of the running job."""
        assert self.job is not None
        first = self.job == len(self.records) + 1
        pace_s = 0.0 if isinstance(value, Ending) else value / (ITERATIONS + Noise.warm_up_typical)
        started_s = 2.0 if first else 0.0
        window = Window(self.job, self.live, started_s, 0.3, 1, 10, pace_s, 0.01, 0.0)
        self._add(chosen, value, 2.8 if first else 1.1, window)
        return self

    def cold(self, chosen: Setting, value: float | Ending, **changes: Any) -> Records:
        """A launch of its own."""
        self.job = None
        self._add(chosen, value, 4.0, None)
        self.records[-1] = replace(self.records[-1], **changes)
        return self

    def exclude(self, numbers: tuple[int, ...], why: Exclusion) -> Records:
        """Some launches count no more."""
        self.records = [
            replace(r, outcome=replace(r.outcome, exclusion=why)) if r.number in numbers else r
            for r in self.records
        ]
        return self

    def _add(self, chosen: Setting, value: float | Ending, wall_s: float, w: Window | None) -> None:
        ending = value if isinstance(value, Ending) else Finished(value, ITERATIONS)
        known = chosen in {each.setting for each in self.records}
        purpose = Purpose.REPEAT if known else Purpose.SEARCH
        if chosen == BASELINE:
            purpose = Purpose.BASELINE
        outcome = Outcome(ending, wall_s, 0, window=w)
        self.records.append(record(len(self.records) + 1, chosen, purpose, outcome))
