"""Synthetic running jobs: windows on the surface of :mod:`tests.study_surface`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.study_surface import CRASH, STARTUP_S, ran, surface
from tuner.launch.request import MeasurementRequest
from tuner.live.eligibility import is_reachable
from tuner.live.full_run import FullRunModel
from tuner.live.jobs import LiveJobs
from tuner.model import (
    Ending,
    Exclusion,
    ExclusionKind,
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
class FakeJobs(LiveJobs):
    """Measures settings in windows: a fifth of a run each; keeps what was requested."""

    time_s: Callable[[Setting], float | Ending] = surface
    can: frozenset[str] = frozenset({"omp_threads"})
    #: Why no job takes orders; then each launch runs to its end.
    refuses: str | None = None
    is_python: bool = True
    #: A switch to this setting crashes the job.
    crashes: Setting | None = None
    #: Called with the number of the record before each one; may raise.
    before: Callable[[int], None] = lambda _: None
    refusal: str = ""
    refused_switch: str = ""
    ends_by_itself: bool = False
    job: tuple[int, Setting] | None = None
    settings: list[Setting] = field(default_factory=list)
    models: list[FullRunModel] = field(default_factory=list)
    ends: int = 0

    def window(self, request: MeasurementRequest, model: FullRunModel) -> Outcome:
        setting = request.setting
        self.before(request.number)
        self.settings.append(setting)
        self.models.append(model)
        if self.refuses is not None:
            self.refusal = self.refuses
            return self._cold(setting)
        started_s = 0.0
        if self.job is None or not is_reachable(self.job[1], setting, self.can):
            self.end()
            self.job = (request.number, setting)
            started_s = STARTUP_S
        assert self.job is not None
        job = self.job[0]
        value = self.time_s(setting)
        pace_s = value / model.figure_s(1.0) if isinstance(value, float) else 0.0
        window = Window(
            *(job, tuple(sorted(self.can)), started_s, SWITCH_S, 1, 20, pace_s, 0.005),
            at_s=float(request.number),
        )
        if setting == self.crashes and not started_s:
            value = CRASH
        if request.cancelled():
            value = Failed(FailureKind.INTERRUPTED, "asked to")
        if isinstance(value, Failed):
            self.end()
            exclusion = Exclusion(ExclusionKind.AFTER_SWITCH, "")
            return Outcome(
                *(value, started_s + SWITCH_S, 1),
                exclusion=None if started_s else exclusion,
                window=window,
            )
        assert isinstance(value, float)
        wall_s = started_s + SWITCH_S + SHARE * value
        return Outcome(Finished(value, model.iterations), wall_s, None, window=window)

    def _cold(self, setting: Setting) -> Outcome:
        ranks = (RankView(0, 1, 0, (0,), reported=self.is_python),)
        outcome = ran(self.time_s(setting))
        return Outcome(
            outcome.ending, outcome.wall_s, 0, outcome.progress, observation=Observation(ranks)
        )

    def end(self) -> None:
        self.ends += self.job is not None
        self.job = None
