"""``json``: the whole study under a versioned schema, described by docs/schema.json."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from tuner.knobs import setting_text
from tuner.launch import render
from tuner.model import (
    RANKS,
    Env,
    Failed,
    Finished,
    Flag,
    JsonDict,
    Knob,
    LaunchRecord,
    Measurement,
    Prefix,
    Result,
    Setting,
    StudySpec,
    figures,
    price,
    wording,
)
from tuner.results.exporters import Export
from tuner.results.study_view import StudyView
from tuner.stats.evidence import counted

SCHEMA = "tuner.export/1"


def export(data: StudyView) -> Export:
    """Write every launch with its samples, exit code and setting, and the result."""
    setting = data.best_setting
    unset, assignments = render.assignments(data.spec, setting)
    document = {
        "schema": SCHEMA,
        "result": result_json(data.result, data.spec),
        "best": {
            "setting": setting.as_dict(),
            "is_baseline": setting.is_baseline,
            "environment": dict(assignments),
            "unset": list(unset),
            "arguments": list(render.arguments(data.spec, setting)),
        },
        "study": spec_json(data.spec),
        "measurements": [
            measurement_json(measurement, data.spec) for measurement in data.measurements
        ],
        "launches": [record_json(record, data.spec) for record in data.records],
    }
    return Export(text=dumps(document))


def dumps(document: Any) -> str:
    """Write JSON for people and programs: indented, ASCII, never ``NaN`` or ``Infinity``."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Make a value of JSON's own types; a number that is not finite becomes ``None``."""
    if isinstance(value, Setting):
        return plain(value.as_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Enum | Path):
        return value.value if isinstance(value, Enum) else str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_document(result: Result, spec: StudySpec) -> JsonDict:
    """Return the document of ``tune --json``."""
    return {"schema": "tuner.result/1", **result_json(result, spec)}


def result_json(result: Result, spec: StudySpec) -> JsonDict:
    """Return a study's result as it stands in documents."""
    sides = {
        "best": result.best,
        "candidate": result.candidate,
        "best_keeping_numerics": result.best_keeping,
        "baseline": result.baseline,
    }
    timed, document = price.timed(spec.objective), plain(result)
    for name in ("name", "objective", "conclusion", "confirm_left_s", "best_keeping"):
        del document[name]
    return {
        "study": result.name,
        **document,
        **{
            name: None if side is None else measurement_json(side, spec)
            for name, side in sides.items()
        },
        "ratio": result.ratio,
        "verdict": result.conclusion,
        "unit": figures.unit(spec.objective),
        "direction": "maximize" if spec.objective.maximize else "minimize",
        "priced": None if spec.price_per_hour is None or timed is None else timed.what,
        "saves": price.saved(spec, result),
    }


def measurement_json(measurement: Measurement, spec: StudySpec) -> JsonDict:
    """Return a setting with every sample of it."""
    document = _with_figure(plain(measurement), spec)
    return document | {
        "samples": [_with_figure(plain(sample), spec) for sample in measurement.samples],
        "items_per_s": plain(price.items_per_s(spec, measurement.elapsed_s)),
        "price": plain(price.price(spec, measurement.elapsed_s)),
    }


def _with_figure(document: JsonDict, spec: StudySpec) -> JsonDict:
    """Add the figure beside ``elapsed_s``, which becomes ``None`` if the figure is not a time."""
    cost = document["elapsed_s"]
    elapsed_s = cost if spec.objective.is_time else None
    return document | {"elapsed_s": elapsed_s, "figure": figures.figure(spec.objective, cost)}


def record_json(record: LaunchRecord, spec: StudySpec) -> JsonDict:
    """Return a launch with its setting, samples, exit code, and what took effect."""
    outcome, document = record.outcome, plain(record)
    del document["outcome"], document["comes_to"]
    ending: JsonDict = plain(outcome.ending)
    if isinstance(outcome.ending, Finished):
        ending = _with_figure(ending, spec)
    parts = ("exit_code", "wall_s", "progress", "effects", "observation", "load", "exclusion")
    return {
        **document,
        **{part: plain(getattr(outcome, part)) for part in (*parts, "window", "side_by_side")},
        "ending": {"state": type(outcome.ending).__name__.lower(), **ending},
        "samples": [_with_figure(plain(sample), spec) for sample in outcome.samples],
        "excluded": outcome.exclusion.text if outcome.exclusion else "",
        "counts_for": record.canonical.as_dict() if counted([record]) else None,
    }


def launches_json(data: StudyView) -> JsonDict:
    """Return the launches that failed or were excluded, for ``tune show --json``."""

    def document(record: LaunchRecord) -> JsonDict:
        return {
            "number": record.number,
            "purpose": record.purpose,
            "setting": record.setting,
            "name": setting_text.assigned(record.setting, data.spec.knobs),
            "job": record.job,
        }

    failures = [(record, record.outcome.ending) for record in data.failures]
    excluded = [(record, record.outcome.exclusion) for record in data.excluded]
    return {
        "failures": [
            document(record)
            | {"failure": wording.failure(failure), "log_tail": failure.log_tail}
            | {"exit_code": record.outcome.exit_code, "folder": record.folder}
            for record, failure in failures
            if isinstance(failure, Failed)
        ],
        "excluded": [
            document(record) | {"excluded": exclusion.text, "exclusion": exclusion}
            for record, exclusion in excluded
            if exclusion is not None
        ],
    }


def spec_json(spec: StudySpec) -> JsonDict:
    """Return what defines the study."""
    document: JsonDict = plain(spec)
    document["machine"] |= {"cores": spec.machine.cores}
    document["left_out"] = dict(spec.left_out)
    document["knobs"] = [knob_json(knob) for knob in spec.knobs]
    return document


def knob_json(knob: Knob) -> JsonDict:
    """Return a knob with its values and how they reach the program."""
    document: JsonDict = plain(knob)
    if isinstance(knob.route, Env):
        route: JsonDict = {"environment": list(knob.route.names)}
    elif isinstance(knob.route, Prefix):
        route = {"prefix": plain(dict(knob.route.words))}
    elif isinstance(knob.route, Flag):
        route = {"argument": knob.route.option}
    else:
        route = {"launcher": getattr(knob.route, "option", RANKS)}
    when = {parent: list(values) for parent, values in knob.when}
    return document | {"route": route, "when": when}
