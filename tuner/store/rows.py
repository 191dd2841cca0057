"""Studies and launches as attributes of Optuna's studies and trials, and back.

Functions that read one raise ``ValueError``, ``KeyError`` or ``TypeError`` if it is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tuner.model import (
    Conclusion,
    Exclusion,
    Finding,
    JsonDict,
    LaunchRecord,
    Observation,
    Setting,
    StudySpec,
    StudyState,
    codec,
)

#: The version of the stored form; studies in another one are not read.
FORM = 5

#: Attributes of a study: its spec; its state; its row in a list; launches that do not count.
STUDY, STATE, SUMMARY, EXCLUDED = "tune:study", "tune:state", "tune:summary", "tune:excluded"
#: Attributes of a trial: the number of its launch; the record of the launch.
LAUNCH, RECORD = "launch", "tune:record"


def now() -> str:
    """Return the time in UTC as ISO 8601, to the microsecond: it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


# --- studies -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What a list of studies shows of one; stored with the study, so that the list is quick."""

    candidate: Setting | None = None  # what the search calls best so far
    best_setting: Setting | None = None  # what is handed over, or else the candidate
    best_s: float | None = None
    baseline_s: float | None = None
    baseline_projection_s: float | None = None  # if no launch of it came to its end
    trials: int = 0
    launches: int = 0
    failures: int = 0
    conclusion: Conclusion | None = None
    finding: Finding | None = None


@dataclass(frozen=True)
class StudyRow:
    """A study as it is stored; times are ISO 8601, UTC."""

    name: str
    spec: StudySpec
    identity: JsonDict
    state: StudyState
    reason: str
    created_at: str
    updated_at: str
    summary: Summary = Summary()


def study_attribute(spec: StudySpec, identity: JsonDict, created_at: str) -> JsonDict:
    """Return the attribute `STUDY` of a study."""
    document = {"spec": spec, "identity": identity, "created_at": created_at}
    return {"form": FORM, **codec.to_json(document)}


def state_attribute(state: StudyState, reason: str) -> JsonDict:
    """Return the attribute `STATE` of a study: how far it is, and why."""
    return {"state": state.value, "reason": reason, "updated_at": now()}


def study_row(name: str, attributes: Mapping[str, Any]) -> StudyRow:
    """Return a study from its attributes: the inverse of those functions, with the summary."""
    study, state, summary = (
        codec.from_json(JsonDict, attributes.get(key, {})) for key in (STUDY, STATE, SUMMARY)
    )
    if study["form"] != FORM:
        raise ValueError(f"its form is {study['form']}, and this tune knows form {FORM}")
    moments = state["updated_at"], summary.get("updated_at", "")
    return StudyRow(
        name=name,
        spec=codec.from_json(StudySpec, study["spec"]),
        identity=codec.from_json(JsonDict, study["identity"]),
        state=StudyState(state["state"]),
        reason=codec.from_json(str, state["reason"]),
        created_at=codec.from_json(str, study["created_at"]),
        updated_at=max(codec.from_json(str, moment) for moment in moments),
        summary=codec.from_json(Summary, summary),
    )


def excluded(attributes: Mapping[str, Any]) -> dict[int, Exclusion]:
    """Return the launches of a study that do not count any more, by their numbers."""
    reasons = codec.from_json(dict[str, Exclusion], attributes.get(EXCLUDED, {}))
    return {int(number): reason for number, reason in reasons.items()}


def with_exclusion(record: LaunchRecord, excluded: Mapping[int, Exclusion]) -> LaunchRecord:
    """Return the launch as excluded if it is among those that do not count any more."""
    exclusion = excluded.get(record.number)
    if exclusion is None or record.outcome.exclusion is not None:
        return record
    return replace(record, outcome=replace(record.outcome, exclusion=exclusion))


# --- launches ----------------------------------------------------------------------------


def launch_attribute(record: LaunchRecord) -> JsonDict:
    """Return the attribute `RECORD` of a launch's trial, without telemetry.

    Of the observation it has what decides whether two launches can run side by side.
    """
    observation = record.outcome.observation
    decisive = Observation(
        memory_bytes=observation.memory_bytes,
        gpu_memory_share=observation.gpu_memory_share,
        written=observation.written,
    )
    outcome = replace(record.outcome, telemetry=None, observation=decisive)
    document: JsonDict = codec.to_json(replace(record, outcome=outcome, comes_to=None))
    return document


def launch_record(document: Any) -> LaunchRecord:
    """Return the inverse of :func:`launch_attribute`."""
    record = codec.from_json(LaunchRecord, document)
    datetime.fromisoformat(record.started_at)
    return record
