"""What the store gives back, and how launches become rows and rows become launches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tuner.model import (
    BASELINE,
    LOGGED_TIME,
    Conclusion,
    Ending,
    Failed,
    FailureKind,
    Finding,
    Finished,
    JsonDict,
    LaunchRecord,
    Machine,
    ObjectiveSpec,
    Progress,
    Sample,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
)
from tuner.store import codec


def now() -> str:
    """The time in UTC as ISO 8601, to the microsecond: sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class StudyRow:
    """A study as it is kept; times are ISO 8601, UTC.

    ``forgiven_until`` is the number of the last launch whose failure is forgotten (0: none).
    """

    name: str
    spec: StudySpec
    identity: JsonDict
    state: StudyState
    reason: str
    created_at: str
    updated_at: str
    forgiven_until: int = 0
    best: Setting | None = None  # what the search calls best so far


@dataclass(frozen=True)
class Summary:
    """What a list of studies says about one; kept with it, never worked out for the list."""

    best_setting: Setting | None = None
    best_s: float | None = None
    baseline_s: float | None = None
    trials: int = 0
    launches: int = 0
    failures: int = 0
    conclusion: Conclusion | None = None
    finding: Finding | None = None


@dataclass(frozen=True)
class StudySummary:
    """One line in the list of studies; times are ISO 8601, UTC."""

    name: str
    state: StudyState
    reason: str
    best_setting: Setting | None
    best_s: float | None
    baseline_s: float | None
    trials: int
    launches: int
    failures: int
    created_at: str
    updated_at: str
    conclusion: Conclusion | None = None
    finding: Finding | None = None
    objective: ObjectiveSpec = LOGGED_TIME


def summary_columns(summary: Summary) -> dict[str, Any]:
    """The columns of ``tune_studies`` that hold the summary."""
    best = summary.best_setting
    return {
        "best_setting": None if best is None else best.to_json(),
        "best_s": summary.best_s,
        "baseline_s": summary.baseline_s,
        "trials": summary.trials,
        "launches": summary.launches,
        "failures": summary.failures,
        "conclusion": None if summary.conclusion is None else summary.conclusion.value,
        "finding": None if summary.finding is None else codec.dumps(summary.finding),
    }


def study_summary(row: Any) -> StudySummary:
    """A row of ``tune_studies``; of its spec what the figures are.

    The best is the answer: the baseline, if the confirmation found no gain over it.
    """
    spec = codec.loads(dict[str, Any], row.spec)
    best = None if row.best_setting is None else Setting.from_json(row.best_setting)
    best_s = row.best_s
    if row.conclusion == Conclusion.NO_GAIN and not codec.from_json(
        dict[str, Any], spec.get("fixed", {})
    ).get("items"):
        best, best_s = BASELINE, row.baseline_s
    document = {
        **row._mapping,
        "best_setting": best,
        "best_s": best_s,
        "finding": None if row.finding is None else json.loads(row.finding),
        "objective": spec.get("objective", {}),
    }
    return codec.from_json(StudySummary, document)


def study_row(row: Any) -> StudyRow:
    """A row of ``tune_studies`` in full."""
    document = {
        **row._mapping,
        "spec": json.loads(row.spec),
        "identity": json.loads(row.identity),
        "best": None if row.best_setting is None else Setting.from_json(row.best_setting),
    }
    return codec.from_json(StudyRow, document)


def launch_columns(record: LaunchRecord) -> dict[str, Any]:
    """A launch as columns of ``tune_launches``; its samples are rows of their own."""
    outcome = record.outcome
    failed = outcome.ending if isinstance(outcome.ending, Failed) else None
    stopped = outcome.ending if isinstance(outcome.ending, Stopped) else None
    return {
        "number": record.number,
        "purpose": record.purpose.value,
        "setting": record.setting.to_json(),
        "trial": record.trial,
        "folder": record.folder,
        "started_at": record.started_at,
        "wall_s": outcome.wall_s,
        "exit_code": outcome.exit_code,
        "failure_kind": failed.kind.value if failed else None,
        "failure_reason": failed.reason if failed else None,
        "log_tail": failed.log_tail if failed else None,
        "argv": codec.dumps(record.argv),
        "env": codec.dumps(record.env),
        "machine": codec.dumps(record.machine),
        "progress": json.dumps([[p.iteration, p.elapsed_s, p.seen_s] for p in outcome.progress]),
        "observation": codec.dumps(outcome.observation),
        "effects": codec.dumps(outcome.effects),
        "stopped": codec.dumps(stopped) if stopped else None,
        "load": codec.dumps(outcome.load) if outcome.load else None,
        "window": codec.dumps(outcome.window) if outcome.window else None,
        "exclusion": codec.dumps(outcome.exclusion) if outcome.exclusion else None,
    }


#: How versions before 3 called a kind of failure.
_RENAMED = {"stopped early": FailureKind.WRONG_RESULT.value}

#: The columns that are left out where only settings and times are asked for.
DETAIL = frozenset({"observation"})


def launch_record(row: Any, samples: list[Sample]) -> LaunchRecord:
    """The inverse of :func:`launch_columns`; the columns of ``DETAIL`` may be missing."""
    datetime.fromisoformat(row.started_at)

    def optional(text: str | None) -> Any:
        return None if text is None else json.loads(text)

    outcome = {
        "ending": _ending(row, samples),
        "wall_s": row.wall_s,
        "exit_code": row.exit_code,
        "progress": _progress(row.progress),
        "observation": json.loads(getattr(row, "observation", "{}")),
        "effects": json.loads(row.effects),
        "load": optional(row.load),
        "window": optional(row.window),
        "exclusion": optional(row.exclusion),
    }
    document = {
        "number": row.number,
        "purpose": row.purpose,
        "setting": Setting.from_json(row.setting),
        "argv": json.loads(row.argv),
        "env": json.loads(row.env),
        "folder": row.folder,
        "started_at": row.started_at,
        "outcome": outcome,
        "machine": _machine(row.machine),
        "trial": row.trial,
    }
    return codec.from_json(LaunchRecord, document)


_PROGRESS = ("iteration", "elapsed_s", "seen_s")


def _progress(text: str) -> tuple[Progress, ...]:
    return tuple(
        codec.from_json(Progress, dict(zip(_PROGRESS, each, strict=False)))
        for each in json.loads(text)
    )


def _ending(row: Any, samples: list[Sample]) -> Ending:
    if row.failure_kind is not None:
        kind = FailureKind(_RENAMED.get(row.failure_kind, row.failure_kind))
        document = {"reason": row.failure_reason or "", "log_tail": row.log_tail or ""}
        return codec.from_json(Failed, {"kind": kind, **document})
    if row.stopped is not None:
        return codec.loads(Stopped, row.stopped)
    if not samples:
        raise ValueError("it finished, but has no row in tune_samples")
    # One window a launch today; of several, the last is the one that ended it.
    last = samples[-1]
    return Finished(last.elapsed_s, last.iterations, last.epochs, last.loss)


def sample(row: Any) -> Sample:
    """A row of ``tune_samples``."""
    return Sample(row.elapsed_s, row.iterations, row.epochs, row.loss)


_machines: dict[str, Machine] = {}


def _machine(text: str) -> Machine:
    """Decode a machine once: every launch of a study carries the same one."""
    if text not in _machines:
        _machines[text] = codec.loads(Machine, text)
    return _machines[text]
