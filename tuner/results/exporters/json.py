"""``json``: the whole study under a versioned schema, described in docs/export-schema.md."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from tuner.launch import render
from tuner.model import (
    Choice,
    Domain,
    Effect,
    Ending,
    Env,
    Finished,
    Flag,
    JsonDict,
    Knob,
    LaunchRecord,
    Measurement,
    Result,
    Route,
    Setting,
    StudySpec,
    figures,
    price,
)
from tuner.results.exporters import Export
from tuner.results.study_view import StudyView

SCHEMA = "tuner.export/1"


def export(data: StudyView) -> Export:
    """Every launch with its samples, exit code and setting, and what was found."""
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
        "measurements": [measurement_json(found, data.spec) for found in data.measurements],
        "launches": [record_json(record, data.spec) for record in data.records],
    }
    return Export(text=dumps(document))


def dumps(document: Any) -> str:
    """JSON text for people and programs: indented, ASCII, never ``NaN`` or ``Infinity``."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """A value made of JSON's own types; a number that is not finite becomes ``None``."""
    if isinstance(value, Setting):
        return plain(value.as_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def result_json(result: Result, spec: StudySpec) -> JsonDict:
    """A study's result, as ``tune --json`` prints it too."""
    sides = {
        "best": result.best,
        "candidate": result.candidate,
        "best_keeping_numerics": result.best_keeping,
        "baseline": result.baseline,
        "reference": result.reference,
    }
    timed = price.timed(spec.objective)
    return {
        "study": result.study,
        "storage": result.storage,
        "state": result.state.value,
        "reason": result.reason,
        **{
            name: None if side is None else measurement_json(side, spec)
            for name, side in sides.items()
        },
        "ratio": plain(result.ratio),
        "trials": result.trials,
        "launches": result.launches,
        "windows": result.windows,
        "jobs": result.jobs,
        "failures": result.failures,
        "notes": list(result.notes),
        "settings_failed": result.settings_failed,
        "settings_stopped": result.settings_stopped,
        "launches_measured": result.launches_measured,
        "caps": plain(result.caps),
        "verdict": None if result.conclusion is None else result.conclusion.value,
        "finding": plain(result.finding),
        "export": plain(result.export),
        "search_s": plain(result.search_s),
        "confirm_s": plain(result.confirm_s),
        "unit": figures.unit(spec.objective),
        "direction": "maximize" if spec.objective.maximize else "minimize",
        "priced": None if spec.price_per_hour is None or timed is None else timed.what,
        "saves": plain(price.saved(spec, result)),
    }


def measurement_json(measurement: Measurement, spec: StudySpec) -> JsonDict:
    """A setting with every raw sample of it."""
    document = _with_figure(plain(measurement), spec)
    return document | {
        "samples": [_with_figure(plain(sample), spec) for sample in measurement.samples],
        "items_per_s": plain(price.items_per_s(spec, measurement.elapsed_s)),
        "price": plain(price.price(spec, measurement.elapsed_s)),
    }


def _with_figure(document: JsonDict, spec: StudySpec) -> JsonDict:
    """What has an ``elapsed_s`` with its figure; the first is ``None`` if that is no time."""
    cost = document["elapsed_s"]
    kept = cost if spec.objective.is_time else None
    return document | {"elapsed_s": kept, "figure": figures.figure(spec.objective, cost)}


def record_json(record: LaunchRecord, spec: StudySpec) -> JsonDict:
    """A launch with its setting, samples, exit code, and what took effect."""
    outcome = record.outcome
    document: JsonDict = plain(record)
    del document["outcome"]
    return document | {
        "ending": _ending_json(outcome.ending, spec),
        "exit_code": outcome.exit_code,
        "wall_s": plain(outcome.wall_s),
        "samples": [_with_figure(plain(sample), spec) for sample in outcome.samples],
        "progress": plain(outcome.progress),
        "effects": [effect_json(effect) for effect in outcome.effects],
        "observation": plain(outcome.observation),
        "load": plain(outcome.load),
        "disturbed": outcome.exclusion.text if outcome.exclusion else "",
        "exclusion": plain(outcome.exclusion),
        "window": plain(outcome.window),
    }


def _ending_json(ending: Ending, spec: StudySpec) -> JsonDict:
    document: JsonDict = plain(ending)
    if isinstance(ending, Finished):
        document = _with_figure(document, spec)
    return {"state": type(ending).__name__.lower(), **document}


def effect_json(effect: Effect) -> JsonDict:
    """What was seen of one knob."""
    document: JsonDict = plain(effect)
    return document


def spec_json(spec: StudySpec) -> JsonDict:
    """What defines the study."""
    document: JsonDict = plain(spec)
    document["machine"] |= {"cores": spec.machine.cores}
    document["left_out"] = dict(spec.left_out)
    document["knobs"] = [knob_json(knob) for knob in spec.knobs]
    return document


def knob_json(knob: Knob) -> JsonDict:
    """A knob with its values and its way."""
    document: JsonDict = plain(knob)
    return document | {
        "domain": _domain_json(knob.domain),
        "route": _route_json(knob.route),
        "when": {parent: list(values) for parent, values in knob.when},
    }


def _domain_json(domain: Domain) -> JsonDict:
    if isinstance(domain, Choice):
        return {"values": list(domain.values)}
    return {"low": domain.low, "high": domain.high}


def _route_json(route: Route) -> JsonDict:
    if isinstance(route, Env):
        return {"environment": list(route.names)}
    return {"argument" if isinstance(route, Flag) else "launcher": route.option}
