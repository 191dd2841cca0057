"""Synthetic running jobs: windows on the surface of :mod:`tests.study_surface`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.study_surface import CRASH, STARTUP_S, ran, surface
from tuner.live.request import MeasurementRequest
from tuner.live.scale import FullRunModel
from tuner.model import (
    Ending,
    Failed,
    FailureKind,
    Finished,
    Observation,
    Outcome,
    RankView,
    Setting,
    Window,
)

SWITCH_S, SHARE = 0.1, 0.2


@dataclass
class FakeJobs:
    """Measures settings in windows: a fifth of a run each; keeps what was asked of it."""

    time_s: Callable[[Setting], float | Ending] = surface
    can: frozenset[str] = frozenset({"omp_threads"})
    #: Why no job takes orders; then each launch runs to its end.
    refuses: str | None = None
    is_python: bool = True
    #: The warm-up goes on as a job that takes orders.
    goes_on: bool = False
    #: A switch to this setting crashes the job; so does every start with it, where ``always``.
    crashes: Setting | None = None
    always: bool = False
    crash: Failed = CRASH
    #: Called with the number of the record before each one; may raise.
    before: Callable[[int], None] = lambda _: None
    refusal: str | None = None
    ends_alone: bool = False
    job: tuple[int, Setting] | None = None
    asked: list[Setting] = field(default_factory=list)
    frozen: list[frozenset[str]] = field(default_factory=list)
    expected: list[FullRunModel] = field(default_factory=list)
    ends: int = 0

    def measure(self, asked: MeasurementRequest, frozen: frozenset[str] = frozenset()) -> Outcome:
        setting, expected = asked.setting, asked.expected
        self.before(asked.number)
        self.asked.append(setting)
        self.frozen.append(frozen)
        self.expected.append(expected)
        if self.refuses is not None:
            self.refusal = self.refuses
            return self._cold(setting)
        started_s = 0.0
        if self.job is None or not self._fits(setting, self.can - frozen):
            self.end()
            self._begin(asked)
            started_s = STARTUP_S
        assert self.job is not None
        job = self.job[0]
        value = self.time_s(setting)
        pace_s = value / expected.figure_s(1.0) if isinstance(value, float) else 0.0
        window = Window(
            *(job, tuple(sorted(self.can)), started_s, SWITCH_S, 1, 20, pace_s, 0.005),
            at_s=float(asked.number),
        )
        if setting == self.crashes and (self.always or not started_s):
            value = self.crash
        if asked.cancelled():
            value = Failed(FailureKind.INTERRUPTED, "asked to")
        if isinstance(value, Failed):
            self.end()
            return Outcome(value, started_s + SWITCH_S, 1, window=window)
        assert isinstance(value, float)
        wall_s = started_s + SWITCH_S + SHARE * value
        return Outcome(Finished(value, expected.iterations), wall_s, None, window=window)

    def launch(self, asked: MeasurementRequest) -> Outcome | None:
        self.end()
        if not self.goes_on:
            return None
        self._begin(asked)
        return self._cold(asked.setting)

    def _begin(self, asked: MeasurementRequest) -> None:
        self.job = (asked.number, asked.setting)
        asked.launch.folder.mkdir(parents=True, exist_ok=True)
        (asked.launch.folder / "output.log").write_text("what the job printed\n")

    def _cold(self, setting: Setting) -> Outcome:
        ranks = (RankView(0, 1, 0, (0,), reported=self.is_python),)
        outcome = ran(self.time_s(setting))
        return Outcome(
            outcome.ending, outcome.wall_s, 0, outcome.progress, observation=Observation(ranks)
        )

    def _fits(self, setting: Setting, can: frozenset[str]) -> bool:
        assert self.job is not None
        start = self.job[1]
        if setting.is_baseline:
            return start.is_baseline
        asked, own = setting.as_dict(), start.as_dict()
        return all(asked.get(knob) == own.get(knob) or knob in can for knob in asked | own)

    def end(self) -> None:
        self.ends += self.job is not None
        self.job = None
