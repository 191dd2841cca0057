"""Studies and launches as attributes of Optuna's studies and trials, and back.

What reads one raises ``ValueError``, ``KeyError`` or ``TypeError`` if it is not as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from tuner.model import (
    BASELINE,
    LOGGED_TIME,
    Conclusion,
    Exclusion,
    Finding,
    JsonDict,
    LaunchRecord,
    ObjectiveSpec,
    Observation,
    Setting,
    StudySpec,
    StudyState,
    Telemetry,
    Track,
    codec,
)

#: The form of what is kept; another one is not read.
FORM = 1

#: Attributes of a study: what it is; how far it is; what a list says; launches that do not count.
STUDY, STATE, SUMMARY, EXCLUDED = "tune:study", "tune:state", "tune:summary", "tune:excluded"
#: On the study of its comparison: the name of the study.
COMPARISON_OF = "tune:comparison_of"
#: Attributes of a trial: the number of its launch; what came of it.
LAUNCH, RECORD = "launch", "tune:record"


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


def study_attribute(spec: StudySpec, belongs: JsonDict, created_at: str) -> JsonDict:
    """What a study is, as its attribute `STUDY`."""
    document = {"spec": spec, "identity": belongs, "created_at": created_at}
    return {"form": FORM, **codec.to_json(document)}


def study_summary(name: str, attributes: Mapping[str, Any]) -> StudySummary:
    """What a list says about a study; of its spec what the figures are.

    The best is the answer: the baseline, if the confirmation found no gain over it.
    """
    study, state = _study(attributes), attributes[STATE]
    summary = codec.from_json(Summary, attributes.get(SUMMARY, {}))
    fixed = codec.from_json(Setting, study["spec"]["fixed"])
    if summary.conclusion and summary.conclusion.keeps_baseline and fixed.is_baseline:
        summary = replace(summary, best_setting=BASELINE, best_s=summary.baseline_s)
    return StudySummary(
        **{each.name: getattr(summary, each.name) for each in fields(Summary)},
        name=name,
        state=StudyState(state["state"]),
        reason=codec.from_json(str, state["reason"]),
        created_at=codec.from_json(str, study["created_at"]),
        updated_at=updated_at(attributes),
        objective=codec.from_json(ObjectiveSpec, study["spec"]["objective"]),
    )


def study_row(name: str, attributes: Mapping[str, Any]) -> StudyRow:
    """A study in full."""
    study, state = _study(attributes), attributes[STATE]
    return StudyRow(
        name=name,
        spec=codec.from_json(StudySpec, study["spec"]),
        identity=codec.from_json(JsonDict, study["identity"]),
        state=StudyState(state["state"]),
        reason=codec.from_json(str, state["reason"]),
        created_at=codec.from_json(str, study["created_at"]),
        updated_at=updated_at(attributes),
        forgiven_until=forgiven_until(attributes),
        best=codec.from_json(Summary, attributes.get(SUMMARY, {})).best_setting,
    )


def _study(attributes: Mapping[str, Any]) -> dict[str, Any]:
    study = codec.from_json(dict[str, Any], attributes[STUDY])
    if study["form"] != FORM:
        raise ValueError(f"its form is {study['form']}, and this tune knows form {FORM}")
    return study


def updated_at(attributes: Mapping[str, Any]) -> str:
    """When a study was worked on last."""
    moments = (attributes.get(key, {}).get("updated_at", "") for key in (STATE, SUMMARY))
    return max(codec.from_json(str, moment) for moment in moments)


def forgiven_until(attributes: Mapping[str, Any]) -> int:
    """The number of the last launch whose failure is forgotten; 0: none."""
    return codec.from_json(int, attributes[STATE]["forgiven_until"])


def excluded(attributes: Mapping[str, Any]) -> dict[int, Exclusion]:
    """The launches of a study that do not count any more, by their numbers."""
    kept = codec.from_json(dict[str, Exclusion], attributes.get(EXCLUDED, {}))
    return {int(number): why for number, why in kept.items()}


# --- launches ----------------------------------------------------------------------------


def launch_attribute(record: LaunchRecord) -> JsonDict:
    """A launch as the attribute `RECORD` of its trial, without what was seen of its ranks."""
    outcome = replace(record.outcome, telemetry=None, observation=Observation())
    document: JsonDict = codec.to_json(replace(record, outcome=outcome))
    return document


def launch_record(document: Any) -> LaunchRecord:
    """The inverse of :func:`launch_attribute`."""
    record = codec.from_json(LaunchRecord, document)
    datetime.fromisoformat(record.started_at)
    return record


def seen_rows(trial_id: int, record: LaunchRecord) -> list[dict[str, Any]]:
    """The rows of ``tune_seen`` for a launch."""
    seen = record.outcome.telemetry
    parts: list[tuple[str, Any]] = [("ranks", record.outcome.observation)]
    if seen is not None:
        parts.append(("telemetry", replace(seen, tracks=())))
        parts += [("track", track) for track in seen.tracks]
    own = {"trial_id": trial_id, "started_at": record.started_at}
    return [
        {**own, "part": part, "track": number, "content": codec.dumps(content)}
        for number, (part, content) in enumerate(parts)
    ]


def telemetry(rows: Sequence[tuple[str, str]]) -> Telemetry | None:
    """The telemetry among rows of (part, content); ``None``: there is none."""
    kept = [codec.loads(Telemetry, content) for part, content in rows if part == "telemetry"]
    tracks = tuple(codec.loads(Track, content) for part, content in rows if part == "track")
    return replace(kept[0], tracks=tracks) if kept else None
