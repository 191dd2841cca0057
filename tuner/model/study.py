"""The result of a study, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from tuner.model.knob import Setting
from tuner.model.outcome import Failed, Finished, Stopped
from tuner.model.study_spec import LOGGED_TIME, ObjectiveSpec


@dataclass(frozen=True)
class Measurement:
    """Every sample of one setting in one layout, and the estimate made of them (a median).

    If no launch of the setting came to its end, ``stopped`` has the most telling projection, or
    else ``failure`` the reason.
    """

    setting: Setting
    samples: tuple[Finished, ...]
    elapsed_s: float | None
    launches: int
    failure: Failed | None = None
    stopped: Stopped | None = None
    windows: int = 0  # launches that were windows of running jobs

    @property
    def typical_s(self) -> float | None:
        """The estimate, or else the projection; ``None`` if all launches failed."""
        return self.elapsed_s if self.stopped is None else self.stopped.projection_s


class StudyState(StrEnum):
    """How far a study is."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class Cap:
    """A cap of a knob: every larger value comes to ``value`` on this machine, by all launches."""

    knob: str
    value: int
    reason: str = ""


Claim = Literal["faster", "slower", "no gain worth having", "inconclusive"]


@dataclass(frozen=True)
class Finding:
    """What pairs of launches prove: the ratio is the time of the reference over that of the best.

    The interval is one of 95 %: `python -m benchmarks.pairs` shows in how many simulated studies it
    holds the true ratio.
    """

    ratio: float
    low: float
    high: float | None  # None: only the lower end is claimed
    pairs: int  # launches of each side
    claim: Claim
    pairs_missing: int | None = None  # that may still be launched if it is inconclusive
    is_side_by_side: bool = False

    @property
    def at_least(self) -> bool:
        """True if only the lower end is claimed."""
        return self.high is None


class Conclusion(StrEnum):
    """The verdict of a study, once its best was compared with the reference."""

    FASTER = "faster"
    NO_GAIN = "no gain worth having"
    INCONCLUSIVE = "inconclusive"
    BASELINE_FAILS = "baseline fails"

    @property
    def keeps_baseline(self) -> bool:
        """True if nothing is proven to be faster."""
        return self in {Conclusion.NO_GAIN, Conclusion.INCONCLUSIVE}


@dataclass(frozen=True)
class Result:
    """The result of a study so far."""

    name: str  # of the study
    storage: str
    state: StudyState
    reason: str  # why it ended
    candidate: Measurement | None  # what the search calls best
    baseline: Measurement | None
    trials: int
    launches: int
    failures: int
    notes: tuple[str, ...] = ()
    settings_failed: int = 0  # of the trials that only failed
    settings_stopped: int = 0  # of the trials that never came to their end
    launches_measured: int = 0  # those with a figure that count; no warm-ups
    caps: tuple[Cap, ...] = ()
    conclusion: Conclusion | None = None  # None: the confirmation has not ended
    finding: Finding | None = None  # what the confirmation shows
    export: Setting | None = None  # the setting to hand over
    search_s: float = 0.0  # wall time of the launches, those of the confirmation apart
    confirm_s: float = 0.0
    #: What the confirmation still takes, s; ``None``: that is not known.
    confirm_left_s: float | None = field(default=None, compare=False)
    best_keeping: Measurement | None = None  # of the settings that keep the numerics
    objective: ObjectiveSpec = LOGGED_TIME
    windows: int = 0  # launches that were windows of running jobs
    jobs: int = 0

    @property
    def best(self) -> Measurement | None:
        """The answer: the setting to hand over, or, until the confirmation ends, the candidate."""
        if self.candidate is None or self.export is None:
            return self.candidate
        is_baseline = self.baseline is not None and self.baseline.setting == self.export
        return self.baseline if is_baseline else self.candidate

    @property
    def ratio(self) -> float | None:
        """How many times faster the candidate is than the baseline; ``None`` if one has no time."""
        if self.candidate is None or self.baseline is None:
            return None
        if self.candidate.elapsed_s is None or self.baseline.elapsed_s is None:
            return None
        return self.baseline.elapsed_s / self.candidate.elapsed_s


JsonDict = dict[str, Any]
