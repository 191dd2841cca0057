"""Which launches of a study are windows of a running job, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tuner.live import windowing
from tuner.live.request import MeasurementRequest
from tuner.live.scale import FullRunModel, expected
from tuner.model import (
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Outcome,
    Purpose,
    wording,
)
from tuner.model.errors import UsageError
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.live_eligibility import COLD, NOT_BY_THE_SWITCH, iterations_due, takes_none
from tuner.study.policy import Step

#: What to do for a job that cannot be retuned.
_HINT = (
    "docs/live.md shows the lines to add (`session = tuner.live.session()`, and `session.step()` in"
    " each iteration); --live auto launches each setting where a job cannot be retuned."
)


_ENDS_ALONE = (
    "a job ends at the program's own end, and the next setting needs another: with an extension, or"
    " more() in its loop, it goes on (docs/live.md)"
)


class Jobs(Protocol):
    """Measures settings in running jobs: :class:`tuner.live.jobs.LiveJobs`, or what stands in."""

    @property
    def refusal(self) -> str | None:
        """Why the job cannot be retuned; ``None`` as long as nothing is known against it."""

    @property
    def ends_alone(self) -> bool:
        """Whether a job has ended by itself, with windows in it."""

    def measure(self, asked: MeasurementRequest, frozen: frozenset[str] = ..., /) -> Outcome:
        """A window of the running job, or the first one of a launch; ``frozen`` knobs are cold."""

    def launch(self, asked: MeasurementRequest, /) -> Outcome | None:
        """A launch of its own, which is the running job from then on if it goes on.

        ``None``: it did not say in time what it came to, and has to be made otherwise.
        """

    def end(self) -> None:
        """End the running job, if there is one; nothing of it is left."""


@dataclass(frozen=True)
class Retuning:
    """Says how each launch is made; without ``jobs`` each is one of its own."""

    jobs: Jobs | None = None

    def expected(
        self, plan: History, step: Step, environ: Mapping[str, str]
    ) -> FullRunModel | None:
        """What a window of the step is scaled by; ``None``: it is a launch of its own."""
        if self.jobs is None or self.why_cold(plan, environ):
            return None
        iterations = iterations_due(plan, step.purpose, step.setting)
        if iterations is None:
            return None
        return expected(plan.records, iterations, plan.spec.objective, _incumbent_s(plan))

    def goes_on(self, plan: History, step: Step, environ: Mapping[str, str]) -> bool:
        """Whether the launch of the step may go on as a job that is retuned: a warm-up may."""
        return step.purpose is Purpose.WARM_UP and not self.why_cold(plan, environ)

    def why_cold(self, plan: History, environ: Mapping[str, str]) -> str:
        """Why no launch of this study can be a window; empty where nothing speaks against it."""
        spec = plan.spec
        if self.jobs is None or spec.live == "off":
            return "--live off"
        why = windowing.why_cold(spec.objective, spec.launcher, environ)
        refused = self.jobs.refusal
        return why or (refused if refused is not None and takes_none(plan) else "")

    def note(self, plan: History, environ: Mapping[str, str]) -> str:
        """What the user should know of how the last launch was made; mostly empty.

        Of a program without Python nobody expects that it can be retuned.

        Raises:
            UsageError: It was to be one.
        """
        record = plan.records[-1]
        proves = record.purpose in COLD and record.purpose is not Purpose.WARM_UP
        if self.jobs is None or plan.spec.live == "off" or proves:
            return ""
        why = self.why_cold(plan, environ)
        if why and plan.spec.live == "on":
            raise UsageError(f"--live on: {why}", _HINT)
        if not why and self.jobs.ends_alone:
            return _ENDS_ALONE
        python = any(rank.reported for rank in record.outcome.observation.ranks)
        return f"each setting is launched anew: {why} (docs/live.md)" if why and python else ""

    def end(self) -> None:
        """End the running job, if there is one."""
        if self.jobs is not None:
            self.jobs.end()


def judged(record: LaunchRecord) -> LaunchRecord:
    """The launch, set aside where it failed in a job that others had used before it.

    Whether it was the setting or the switch tells a launch of its own: that comes next.
    """
    window, ending = record.outcome.window, record.outcome.ending
    if window is None or record.outcome.exclusion is not None or not isinstance(ending, Failed):
        return record
    is_switch = ending.kind is FailureKind.SWITCH
    if ending.kind in NOT_BY_THE_SWITCH or (window.job == record.number and not is_switch):
        return record
    blame = "it" if is_switch else "that may be the switch's fault: it"
    why = f"{wording.failure(ending)}; {blame} is launched by itself"
    exclusion = Exclusion(ExclusionKind.AFTER_SWITCH, why)
    return replace(record, outcome=replace(record.outcome, exclusion=exclusion))


def _incumbent_s(plan: History) -> float | None:
    """The figure of the best setting so far."""
    found = estimates.best(estimates.measurements(plan.searched, plan.pooling.canonical))
    return None if found is None else found.elapsed_s
