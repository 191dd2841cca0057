"""A stored launch with its verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.model import LaunchRecord, StudySpec, Telemetry
from tuner.results.explain import case_of, explain
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Explanation
from tuner.results.explain.evidence import sentence


@dataclass(frozen=True)
class Told:
    """One run; ``name`` is what it goes by (``best``)."""

    name: str
    record: LaunchRecord
    case: Case
    found: Explanation

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return sentence(self.found)


def told(name: str, record: LaunchRecord, telemetry: Telemetry | None, spec: StudySpec) -> Told:
    """The verdict on a launch whose record is kept apart from what was recorded of it."""
    outcome = replace(record.outcome, telemetry=telemetry)
    return Told(
        name,
        record,
        case_of(outcome, record.machine),
        explain(outcome, record.setting, spec, record.machine),
    )
