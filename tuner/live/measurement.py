"""Measures the settings of a study: each in a window of a running job, or by a launch of its own.

:meth:`LiveMeasurement.measure` is the one entry. Which of the two it is follows from the spec, the
records and what the jobs of this run have shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tuner.launch.trial import ignore
from tuner.live import eligibility
from tuner.live.eligibility import COLD, NOT_BY_THE_SWITCH
from tuner.live.scale import FullRunModel, full_run_model
from tuner.model import (
    Exclusion,
    ExclusionKind,
    Failed,
    Launch,
    LaunchRecord,
    Outcome,
    Progress,
    Purpose,
    Setting,
    StudySpec,
    wording,
)
from tuner.model.errors import UsageError
from tuner.search.stopper import EarlyStopper

#: A program that never accepted switches will not begin to. One whose jobs had windows can: ranks
#: that did not connect were kept from it by chance (a crowded host, a slow file system with the
#: socket). After so many such launches in a row it is over; each counts as what it was.
IN_A_ROW = 2

_HINT = (
    "docs/live.md shows the lines to add (`session = tuner.live.session()`, and `session.step()` in"
    " each iteration); --live auto launches each setting if a job accepts no switches."
)

_ENDS_ALONE = (
    "a job ends at the program's own end, and the next setting needs another: with an extension, or"
    " more() in its loop, it goes on (docs/live.md)"
)


@dataclass(frozen=True)
class MeasurementRequest:
    """One measurement of a setting, as the study asks for it.

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
    cancelled: Callable[[], bool] = lambda: False


class TrialRunner(Protocol):
    """Runs one launch to its outcome: :func:`tuner.launch.trial.run`, or a substitute."""

    def __call__(
        self,
        launch: Launch,
        *,
        spec: StudySpec,
        setting: Setting,
        expected_iterations: int | None,
        on_progress: Callable[[Progress], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        stopper: EarlyStopper | None = None,
    ) -> Outcome: ...


class Jobs(Protocol):
    """Measures settings in running jobs: :class:`tuner.live.jobs.LiveJobs`, or a substitute."""

    @property
    def refusal(self) -> str | None:
        """Why the last launch accepted no switches; ``None``: it did, or ended by chance."""

    @property
    def ends_alone(self) -> bool:
        """Whether a job has ended by itself, with windows in it."""

    def window(self, request: MeasurementRequest, model: FullRunModel, /) -> Outcome:
        """A window of the running job, or the first one of a job that is started for it."""

    def warm_up(self, request: MeasurementRequest, /) -> Outcome | None:
        """A launch of its own; if it goes on beyond its end it is the running job then.

        ``None``: it did not write its result in time, and has to be launched otherwise.
        """

    def end(self) -> None:
        """End the running job, if there is one; nothing of it is left."""


class LiveMeasurement:
    """Measures the settings of one run over a study.

    Args:
        run: Makes a launch.
        jobs: Measures in running jobs; ``None``: each setting is launched.
    """

    def __init__(self, run: TrialRunner, jobs: Jobs | None = None) -> None:
        self._run = run
        self._jobs = jobs
        self._refused = 0  # so many launches in a row accepted no switches

    def measure(self, request: MeasurementRequest) -> Outcome:
        """Measure a setting, in a window if that :meth:`is_window`.

        Raises:
            TunerError, UsageError: As :func:`tuner.launch.trial.run`.

        Whatever is raised, a KeyboardInterrupt too, goes on only after all has been ended.
        """
        spec, records, environ = request.spec, request.records, request.launch.env
        iterations = eligibility.full_iterations(records, request.setting)
        if self._jobs is not None:
            if self.is_window(spec, records, request.purpose, request.setting, environ):
                model = full_run_model(
                    records, iterations or 0, spec.objective, request.incumbent_s
                )
                outcome = self._jobs.window(request, model)
                self._count(outcome.window is None)
                return _judged(outcome, request.number)
            self._jobs.end()  # nothing of a study runs beside a launch
            is_cold = eligibility.is_switched_off(records) or self.why_cold(spec, records, environ)
            if request.purpose is Purpose.WARM_UP and not is_cold:
                warm_up = self._jobs.warm_up(request)
                self._count(self._jobs.refusal is not None)
                if warm_up is not None:
                    return warm_up
        return self._run(
            request.launch,
            spec=spec,
            setting=request.setting,
            expected_iterations=iterations,
            on_progress=request.on_progress,
            cancelled=request.cancelled,
            stopper=request.stopper,
        )

    def end(self) -> None:
        """End the running job, if there is one."""
        if self._jobs is not None:
            self._jobs.end()

    def is_window(
        self,
        spec: StudySpec,
        records: Sequence[LaunchRecord],
        purpose: Purpose,
        setting: Setting,
        environ: Mapping[str, str],
    ) -> bool:
        """Whether the setting is to be measured in a window of a running job."""
        iterations = eligibility.window_iterations(records, purpose, setting)
        return iterations is not None and not self.why_cold(spec, records, environ)

    def why_cold(
        self, spec: StudySpec, records: Sequence[LaunchRecord], environ: Mapping[str, str]
    ) -> str:
        """Why no launch of this study can be a window; empty if it can."""
        if self._jobs is None or spec.live == "off":
            return "--live off"
        had_windows = any(record.job is not None for record in records)
        refused = self._refused >= (IN_A_ROW if had_windows else 1)
        why = eligibility.why_cold(spec.objective, environ)
        return why or (self._jobs.refusal or "" if refused else "")

    def note(
        self, spec: StudySpec, records: Sequence[LaunchRecord], environ: Mapping[str, str]
    ) -> str:
        """What the user should know of how the last launch was made; mostly empty.

        Of a program without Python nobody expects live measurement.

        Raises:
            UsageError: It was demanded (``--live on``), and is not possible.
        """
        record = records[-1]
        confirms = record.purpose in COLD and record.purpose is not Purpose.WARM_UP
        if self._jobs is None or spec.live == "off" or confirms:
            return ""
        why = self.why_cold(spec, records, environ)
        if why and spec.live == "on":
            raise UsageError(f"--live on: {why}", _HINT)
        if not why and self._jobs.ends_alone:
            return _ENDS_ALONE
        python = any(rank.reported for rank in record.outcome.observation.ranks)
        return f"each setting is launched anew: {why} (docs/live.md)" if why and python else ""

    def _count(self, refused: bool) -> None:
        if self._jobs is not None and refused and self._jobs.refusal is not None:
            self._refused += 1
        elif not refused:
            self._refused = 0


def _judged(outcome: Outcome, number: int) -> Outcome:
    """The outcome, excluded if it failed in a job that others had used before it.

    A separate launch then shows whether the setting or the switch failed.
    """
    window, ending = outcome.window, outcome.ending
    if window is None or outcome.exclusion is not None or not isinstance(ending, Failed):
        return outcome
    if ending.kind in NOT_BY_THE_SWITCH or window.job == number:
        return outcome
    failed = wording.failure(ending)
    text = f"{failed}; that may be the switch's fault: it is launched by itself"
    return replace(outcome, exclusion=Exclusion(ExclusionKind.AFTER_SWITCH, text))
