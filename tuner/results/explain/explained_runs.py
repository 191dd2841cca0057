"""Puts the verdicts on the launches that are explained into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.model import Finished, LaunchRecord, Setting, Stopped, Telemetry
from tuner.results.explain import explain
from tuner.results.explain.cause import Cause, Diagnosis, Remedy, lies_in_direction, per_cent
from tuner.results.study_view import StudyView
from tuner.stats import evidence

#: Causes that hold no run back.
_HELD_BY_NOTHING = frozenset({Cause.CPU, Cause.GPU, Cause.UNKNOWN})


@dataclass(frozen=True)
class ExplainedRun:
    """One run with its verdict; ``name`` is what the output calls it (``best``)."""

    name: str
    record: LaunchRecord
    explanation: Diagnosis

    @property
    def sentence(self) -> str:
        """The verdict: ``held back by a rank that the others wait for (rank 1): 84 % …``."""
        suspect = self.explanation.suspect
        if suspect.cause is Cause.UNKNOWN:
            return "what held it back cannot be told"
        prefix = "" if suspect.cause in _HELD_BY_NOTHING else "held back by "
        share, certainty = per_cent(suspect.share), self.explanation.certainty
        return f"{prefix}{suspect}, {share} of the time ({certainty})"

    @property
    def lines(self) -> list[str]:
        """The evidence, the knob that addresses the cause, and the other causes, a line each."""
        explanation = self.explanation
        is_known = explanation.cause is not Cause.UNKNOWN
        remedies = [_remedy_sentence(explanation.remedy)] if is_known else []
        also = [f"also: {s}, {per_cent(s.share)} of the time" for s in explanation.others]
        return [*explanation.suspect.evidence, *remedies, *also]


def _remedy_sentence(remedy: Remedy | None) -> str:
    if remedy is None:
        return "no knob here addresses it"
    how = "another value of" if remedy.direction == "another" else f"a {remedy.direction}"
    where = "" if remedy.tuned else f" (this study does not tune it: --knob {remedy.knob}=…)"
    return f"{how} {remedy.knob} addresses it{where}"


def explained_run(
    name: str, record: LaunchRecord, telemetry: Telemetry | None, data: StudyView
) -> ExplainedRun:
    """Return the verdict on a launch whose record is kept apart from its telemetry.

    It names no knob that the study's own launches contradict.
    """
    outcome = replace(record.outcome, telemetry=telemetry)
    explanation = explain(outcome, record.setting, data.spec, record.machine)
    remedy = explanation.remedy
    if remedy is not None and _is_contradicted(remedy, record.setting, data):
        explanation = replace(explanation, remedy=None)
    return ExplainedRun(name, record, explanation)


def _is_contradicted(remedy: Remedy, setting: Setting, data: StudyView) -> bool:
    """Return whether turning this knob alone in this direction gained nothing in the study."""
    base = data.pooling.canonical(setting)
    times_s = {m.setting: m.elapsed_s for m in data.measurements if m.elapsed_s is not None}
    values = data.pooling.filled(base).as_dict()
    gains = []
    for other_setting, time_s in times_s.items():
        new_values = data.pooling.filled(other_setting).as_dict()
        differing = [k for k in {*values, *new_values} if values.get(k) != new_values.get(k)]
        if differing == [remedy.knob] and base in times_s:
            value, other = values.get(remedy.knob), new_values.get(remedy.knob)
            if lies_in_direction(value, other, remedy.direction):
                gains.append(times_s[base] / time_s)
    return bool(gains) and max(gains) <= 1 + data.spec.precision


def median_run(records: Sequence[LaunchRecord], setting: Setting) -> LaunchRecord | None:
    """Return the median run of what comes to a setting, or else the longest of its launches.

    Launches that do not count are passed over. So are windows of a running job, of which less was
    recorded, if there is a launch, and launches side by side, of which nothing was, if there is
    another one.
    """
    launches = [r for r in evidence.counted(records) if r.canonical == setting]
    launches = [r for r in launches if r.outcome.side_by_side is None] or launches
    launches = [r for r in launches if r.outcome.window is None] or launches
    timed = [
        (record.outcome.ending.elapsed_s, record.number, record)
        for record in launches
        if isinstance(record.outcome.ending, Finished)
    ]
    if timed:
        *_, median = sorted(timed, key=lambda entry: entry[:2])[len(timed) // 2]
        return median
    stopped = [record for record in launches if isinstance(record.outcome.ending, Stopped)]
    return max(stopped or launches, key=lambda record: record.outcome.wall_s, default=None)
