"""Which launches of a study are windows of a running job, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tuner import stats, windowing, wording
from tuner.errors import UsageError
from tuner.model import (
    FROM_OUTSIDE,
    Failed,
    FailureKind,
    LaunchRecord,
    Outcome,
    Purpose,
    Setting,
    StudySpec,
)
from tuner.retune.asked import Asked
from tuner.retune.scale import Expected, expected
from tuner.study.agreement import frozen
from tuner.study.course import Step
from tuner.study.plan import Plan

#: Launches of their own in any study: what they prove is proven of what is exported.
COLD = frozenset({Purpose.WARM_UP, Purpose.CONFIRM, Purpose.RECORD})

#: Failures that no switch can be at fault for.
_NOT_BY_THE_SWITCH = FROM_OUTSIDE | {FailureKind.LIMIT}

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
    """Measures settings in running jobs: :class:`tuner.retune.jobs.LiveJobs`, or what stands in."""

    @property
    def refusal(self) -> str | None:
        """Why the job cannot be retuned; ``None`` as long as nothing is known against it."""

    @property
    def ends_alone(self) -> bool:
        """Whether a job has ended by itself, with windows in it."""

    def measure(self, asked: Asked, frozen: frozenset[str] = ..., /) -> Outcome:
        """A window of the running job, or the first one of a launch; ``frozen`` knobs are cold."""

    def launch(self, asked: Asked, /) -> Outcome | None:
        """A launch of its own, which is the running job from then on if it goes on.

        ``None``: it did not say in time what it came to, and has to be made otherwise.
        """

    def end(self) -> None:
        """End the running job, if there is one; nothing of it is left."""


@dataclass(frozen=True)
class Retuning:
    """Says how each launch is made; without ``jobs`` each is one of its own."""

    jobs: Jobs | None = None

    def expected(self, plan: Plan, step: Step, environ: Mapping[str, str]) -> Expected | None:
        """What a window of the step is scaled by; ``None``: it is a launch of its own."""
        if self.jobs is None or step.purpose in COLD or self.why_cold(plan.spec, environ):
            return None
        iterations = plan.expected_iterations(step.setting)
        if iterations is None or _is_frozen(plan):
            return None
        if _failed_in_a_window(plan.records, step.setting):
            return None
        return expected(plan.records, iterations, plan.spec.objective, _incumbent_s(plan))

    def goes_on(self, plan: Plan, step: Step, environ: Mapping[str, str]) -> bool:
        """Whether the launch of the step may go on as a job that is retuned: a warm-up may."""
        return step.purpose is Purpose.WARM_UP and not self.why_cold(plan.spec, environ)

    def why_cold(self, spec: StudySpec, environ: Mapping[str, str]) -> str:
        """Why no launch of this study can be a window; empty where nothing speaks against it."""
        if self.jobs is None or spec.live == "off":
            return "--live off"
        refused = self.jobs.refusal
        return windowing.why_cold(spec.objective, spec.launcher, environ) or refused or ""

    def note(self, spec: StudySpec, record: LaunchRecord, environ: Mapping[str, str]) -> str:
        """What the user should know of how a launch was made; mostly empty.

        Of a program without Python nobody expects that it can be retuned.

        Raises:
            UsageError: It was to be one.
        """
        proves = record.purpose in COLD and record.purpose is not Purpose.WARM_UP
        if self.jobs is None or spec.live == "off" or proves:
            return ""
        why = self.why_cold(spec, environ)
        if why and spec.live == "on":
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
    if window is None or record.outcome.disturbed or not isinstance(ending, Failed):
        return record
    is_switch = ending.kind is FailureKind.SWITCH
    if ending.kind in _NOT_BY_THE_SWITCH or (window.job == record.number and not is_switch):
        return record
    blame = "it" if is_switch else "that may be the switch's fault: it"
    why = f"{wording.failure(ending)}; {blame} is launched by itself"
    return replace(record, outcome=replace(record.outcome, disturbed=why))


def _is_frozen(plan: Plan) -> bool:
    """True where live and cold disagreed until no knob is left that a job could change."""
    held = frozen(plan.records)
    windows = [r.outcome.window for r in plan.records if r.outcome.window is not None]
    tuned = {knob.name for knob in plan.knobs}
    return bool(held) and not tuned & set(windows[-1].live) - held


def _failed_in_a_window(records: Iterable[LaunchRecord], setting: Setting) -> bool:
    """True where a window of the setting failed: the next launch is one of its own."""
    return any(
        record.setting == setting
        and record.outcome.window is not None
        and isinstance(record.outcome.ending, Failed)
        and record.outcome.ending.kind not in _NOT_BY_THE_SWITCH
        for record in records
    )


def _incumbent_s(plan: Plan) -> float | None:
    """The figure of the best setting so far."""
    found = stats.best(stats.measurements(plan.searched, plan.pooling.canonical))
    return None if found is None else found.elapsed_s
