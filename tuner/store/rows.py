"""Studies, launches and what the sampler saw of them, as rows of our tables and back.

What reads a row raises ``ValueError``, ``KeyError`` or ``TypeError`` if the row is of another
program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
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
    Reading,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
    Telemetry,
    Track,
    codec,
)


def now() -> str:
    """The time in UTC as ISO 8601, to the microsecond: sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


# --- studies -----------------------------------------------------------------------------


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


@dataclass(frozen=True, kw_only=True)
class StudySummary(Summary):
    """One line in the list of studies; times are ISO 8601, UTC."""

    name: str
    state: StudyState
    reason: str
    created_at: str
    updated_at: str
    objective: ObjectiveSpec = LOGGED_TIME


def summary_columns(summary: Summary) -> dict[str, Any]:
    """The columns of ``tune_studies`` that hold the summary."""
    best = summary.best_setting
    return {
        **codec.to_json(summary),
        "best_setting": None if best is None else best.to_json(),
        "finding": None if summary.finding is None else codec.dumps(summary.finding),
    }


def study_summary(row: Any) -> StudySummary:
    """A row of ``tune_studies``; of its spec what the figures are.

    The best is the answer: the baseline, if the confirmation found no gain over it.
    """
    spec = codec.loads(dict[str, Any], row.spec)
    best, best_s = _setting(row.best_setting), row.best_s
    fixed = codec.from_json(dict[str, Any], spec.get("fixed", {})).get("items")
    if row.conclusion and Conclusion(row.conclusion).keeps_baseline and not fixed:
        best, best_s = BASELINE, row.baseline_s
    document = {
        **row._mapping,
        "best_setting": best,
        "best_s": best_s,
        "finding": _optional(row.finding),
        "objective": spec.get("objective", {}),
    }
    return codec.from_json(StudySummary, document)


def study_row(row: Any) -> StudyRow:
    """A row of ``tune_studies`` in full."""
    document = {
        **row._mapping,
        "spec": json.loads(row.spec),
        "identity": json.loads(row.identity),
        "best": _setting(row.best_setting),
    }
    return codec.from_json(StudyRow, document)


def _setting(text: str | None) -> Setting | None:
    return None if text is None else Setting.from_json(text)


def _optional(text: str | None) -> Any:
    return None if text is None else json.loads(text)


# --- launches ----------------------------------------------------------------------------

#: The columns that are left out if only settings and times are wanted.
DETAIL = frozenset({"observation"})

#: How versions before 3 called a kind of failure.
_RENAMED = {"stopped early": FailureKind.WRONG_RESULT.value}

_PROGRESS = ("iteration", "elapsed_s", "seen_s")


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


def sample_columns(sample: Finished) -> dict[str, Any]:
    """What a launch measured as columns of ``tune_samples``."""
    reading = None if sample.reading is None else codec.dumps(sample.reading)
    return {**vars(sample), "reading": reading}


def sample(row: Any) -> Finished:
    """The inverse of :func:`sample_columns`."""
    reading = None if row.reading is None else codec.loads(Reading, row.reading)
    return Finished(row.elapsed_s, row.iterations, row.epochs, row.loss, reading)


def launch_record(row: Any, samples: list[Finished]) -> LaunchRecord:
    """The inverse of :func:`launch_columns`; the columns of ``DETAIL`` may be missing."""
    datetime.fromisoformat(row.started_at)
    outcome = {
        "ending": _ending(row, samples),
        "wall_s": row.wall_s,
        "exit_code": row.exit_code,
        "progress": [dict(zip(_PROGRESS, each, strict=False)) for each in json.loads(row.progress)],
        "observation": json.loads(getattr(row, "observation", "{}")),
        "effects": json.loads(row.effects),
        "load": _optional(row.load),
        "window": _optional(row.window),
        "exclusion": _optional(row.exclusion),
    }
    document = {
        **row._mapping,
        "setting": Setting.from_json(row.setting),
        "argv": json.loads(row.argv),
        "env": json.loads(row.env),
        "outcome": outcome,
        "machine": _machine(row.machine),
    }
    return codec.from_json(LaunchRecord, document)


def _ending(row: Any, samples: list[Finished]) -> Ending:
    if row.failure_kind is not None:
        kind = FailureKind(_RENAMED.get(row.failure_kind, row.failure_kind))
        document = {"reason": row.failure_reason or "", "log_tail": row.log_tail or ""}
        return codec.from_json(Failed, {"kind": kind, **document})
    if row.stopped is not None:
        return codec.loads(Stopped, row.stopped)
    if not samples:
        raise ValueError("it finished, but has no row in tune_samples")
    return samples[-1]  # one row a launch today; of several, the last is the one that ended it


@cache
def _machine(text: str) -> Machine:
    """Every launch of a study carries the same one: it is decoded once."""
    return codec.loads(Machine, text)


def telemetry_rows(launch_id: int, found: Telemetry) -> list[dict[str, Any]]:
    """The rows of ``tune_telemetry``: the first has all but the tracks."""
    content: list[tuple[str | None, int | None, Any]] = [(None, None, replace(found, tracks=()))]
    content += [(track.host, track.rank, track) for track in found.tracks]
    return [
        {
            **{"launch_id": launch_id, "track": number},
            **{"host": host, "rank": rank, "content": codec.dumps(each)},
        }
        for number, (host, rank, each) in enumerate(content)
    ]


def telemetry(rows: Sequence[Any]) -> Telemetry | None:
    """The inverse of :func:`telemetry_rows`; ``None`` without rows."""
    if not rows:
        return None
    rest, *others = rows
    tracks = tuple(codec.loads(Track, row.content) for row in others)
    return replace(codec.loads(Telemetry, rest.content), tracks=tracks)
