"""Puts the verdicts on the launches that are explained into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuner.model import Finished, LaunchRecord, Setting, Stopped, Telemetry
from tuner.results.explain import explain
from tuner.results.explain.cause import Cause, Diagnosis, Remedy, lies_in_direction, per_cent
from tuner.results.study_view import StudyView
from tuner.stats import evidence

#: Verdicts that nothing held the run back.
_HELD_BY_NOTHING = frozenset({Cause.CPU, Cause.GPU, Cause.UNKNOWN})


@dataclass(frozen=True)
class ExplainedRun:
    """One run; ``name`` is what it goes by (``best``)."""

    name: str
    record: LaunchRecord
    explanation: Diagnosis

    @property
    def sentence(self) -> str:
        """The verdict: ``held back by a rank that the others wait for (rank 1): 84 % …``."""
        suspect = self.explanation.suspect
        if suspect.cause is Cause.UNKNOWN:
            return "what held it back cannot be told"
        held = "" if suspect.cause in _HELD_BY_NOTHING else "held back by "
        share, certainty = per_cent(suspect.share), self.explanation.certainty
        return f"{held}{suspect}, {share} of the time ({certainty})"

    @property
    def lines(self) -> list[str]:
        """What shows it, which knob addresses it, and what else was found."""
        explanation = self.explanation
        is_known = explanation.cause is not Cause.UNKNOWN
        turn = [_remedy_sentence(explanation.remedy)] if is_known else []
        others = explanation.others
        also = [f"also: {other}, {per_cent(other.share)} of the time" for other in others]
        return [*explanation.suspect.evidence, *turn, *also]


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
    """Return whether a knob was turned this way, with all others as they are, and won nothing."""
    own = data.pooling.canonical(setting)
    times_s = {m.setting: m.elapsed_s for m in data.measurements if m.elapsed_s is not None}
    values = data.pooling.filled(own).as_dict()
    gains = []
    for setting_, time_s in times_s.items():
        others = data.pooling.filled(setting_).as_dict()
        differing = [name for name in {*values, *others} if values.get(name) != others.get(name)]
        if differing == [remedy.knob] and own in times_s:
            value, other = values.get(remedy.knob), others.get(remedy.knob)
            if lies_in_direction(value, other, remedy.direction):
                gains.append(times_s[own] / time_s)
    return bool(gains) and max(gains) <= 1 + data.spec.precision


def median_run(
    records: Sequence[LaunchRecord], setting: Setting, canonical: Callable[[Setting], Setting]
) -> LaunchRecord | None:
    """Return the median run of a setting; of one that never came to its end the longest look.

    Launches that do not count are passed over. So are windows of a running job, of which less was
    recorded, if there is a launch, and launches side by side, of which nothing was, if there is
    another one. ``setting`` is in its canonical form, to which ``canonical`` maps.
    """
    mine = [record for record in evidence.counted(records) if canonical(record.setting) == setting]
    mine = [record for record in mine if record.outcome.side_by_side is None] or mine
    mine = [record for record in mine if record.outcome.window is None] or mine
    timed = [
        (record.outcome.ending.elapsed_s, record.number, record)
        for record in mine
        if isinstance(record.outcome.ending, Finished)
    ]
    if timed:
        return sorted(timed, key=lambda entry: entry[:2])[len(timed) // 2][2]
    cut = [record for record in mine if isinstance(record.outcome.ending, Stopped)]
    return max(cut or mine, key=lambda record: record.outcome.wall_s, default=None)
