"""Measures the settings of a study: each in a window of a running job, or by a launch of its own.

Which of the two it is follows from the spec, the records and what the jobs of this run have shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tuner.launch.request import MeasurementRequest
from tuner.live import eligibility
from tuner.live.full_run import full_run_model
from tuner.model import LaunchRecord, Outcome, Purpose, Setting, SideBySide, StudySpec
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.live.jobs import LiveJobs

#: Runs one launch to its outcome: :func:`tuner.launch.trial.run`, or a substitute.
TrialRunner = Callable[[MeasurementRequest], Outcome]

#: Runs two launches side by side: :func:`tuner.launch.side_by_side.run`, or a substitute.
PairRunner = Callable[[Sequence[MeasurementRequest]], list[Outcome]]


class Obstacle(NamedTuple):
    """What is against measuring live, and what to do about it."""

    why: str
    hint: str = (
        "docs/live.md shows the lines to add (`session = tuner.live.session()`, and"
        " `session.step()` in each iteration); --live auto launches each setting if a job accepts"
        " no switches."
    )


class LiveMeasurement:
    """Measures the settings of a study, as long as one ``tune`` command runs.

    Without ``jobs`` each setting is launched. Without ``run_pair``, as in a replay, in which
    nothing disturbs, the two sides of a pair are launched one after the other.
    """

    def __init__(
        self,
        spec: StudySpec,
        run: TrialRunner,
        jobs: LiveJobs | None = None,
        run_pair: PairRunner | None = None,
    ) -> None:
        self._spec, self._run, self._run_pair = spec, run, run_pair
        self._jobs = None if spec.live == "off" else jobs

    def measure(self, request: MeasurementRequest) -> Outcome:
        """Measure a setting: in a window if :meth:`is_window` says so, else by a launch.

        Whatever is raised, a KeyboardInterrupt too, goes on only after all has been ended.

        Raises:
            TunerError, UsageError: As :func:`tuner.launch.trial.run`.
        """
        spec, records, jobs = request.spec, request.records, self._jobs
        if jobs is None or not self.is_window(records, request.purpose, request.setting):
            self.end()  # nothing of a study runs beside a launch
            return self._run(request)
        iterations = request.expected_iterations or 0
        model = full_run_model(records, iterations, spec.objective, request.incumbent_s)
        return jobs.window(request, model)

    def measure_side_by_side(self, requests: Sequence[MeasurementRequest]) -> list[Outcome]:
        """Launch two settings side by side; errors as :meth:`measure`."""
        self.end()  # nothing of a study runs beside a pair
        if self._run_pair is not None:
            return self._run_pair(requests)
        outcomes = map(self._run, requests)
        return [
            replace(outcome, side_by_side=SideBySide(other=other_request.number))
            for outcome, other_request in zip(outcomes, reversed(requests), strict=True)
        ]

    def end(self) -> None:
        """End the running job, if there is one."""
        if self._jobs is not None:
            self._jobs.end()

    def is_window(
        self, records: Sequence[LaunchRecord], purpose: Purpose, setting: Setting
    ) -> bool:
        """Return whether the setting is to be measured in a window of a running job."""
        if self._jobs is None or self._obstacle(records) is not None:
            return False
        return eligibility.may_be_window(records, purpose, setting)

    def require_live(self, records: Sequence[LaunchRecord]) -> None:
        """Refuse to go on if live measurement was demanded, and is not possible.

        Raises:
            UsageError: With ``--live on``.
        """
        obstacle = self._obstacle(records) if self._is_due(records[-1]) else None
        if obstacle is not None and self._spec.live == "on":
            raise UsageError(f"--live on: {obstacle.why}", obstacle.hint)

    def note(self, records: Sequence[LaunchRecord]) -> str:
        """Return what the user should know of how the last launch was made; mostly empty.

        Of a program without Python nobody expects live measurement.
        """
        if self._jobs is None or not self._is_due(records[-1]):
            return ""
        if (obstacle := self._obstacle(records)) is not None:
            is_python = any(rank.reported for rank in records[-1].outcome.observation.ranks)
            note = f"each setting is launched anew: {obstacle.why} (docs/live.md)"
            return note if is_python else ""
        if self._jobs.refused_switch:
            return (
                f"the running job could not be switched to {self._jobs.refused_switch};"
                " another job was started with it (docs/live.md)"
            )
        if records[-1].job is not None and self._spec.rank_counts is not None:
            return "each number of ranks is measured in a job of its own (docs/live.md)"
        if self._jobs.ends_by_itself:
            return (
                "a job ends at the program's own end, and the next setting needs another: with an"
                " extension, or more() in its loop, it goes on (docs/live.md)"
            )
        return ""

    def _is_due(self, record: LaunchRecord) -> bool:
        """Return whether a launch shows if live measurement is possible."""
        purpose = record.purpose
        return purpose.stage.may_be_window or purpose is Purpose.WARM_UP

    def _obstacle(self, records: Sequence[LaunchRecord]) -> Obstacle | None:
        """Return why no launch of this study can be a window; ``None``: nothing is against it.

        That the user has switched it off is no obstacle.
        """
        if self._jobs is None:
            return None
        if why := eligibility.why_cold(self._spec.objective, self._spec.layout, os.environ):
            return Obstacle(why)
        if why := eligibility.why_too_short(records):
            hint = "make a run longer, or leave --live out: then each setting is launched"
            return Obstacle(why, hint)
        return Obstacle(self._jobs.refusal) if self._jobs.refusal else None
