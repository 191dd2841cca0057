"""What `tune` writes as JSON is what the published schema says, with no key more or less.

The fixture `tune` of `tests/cli` checks whatever document any command prints there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests import study_samples
from tests.json_schema import SCHEMA, check
from tuner.results.compared_studies import Comparison
from tuner.results.exporters.json import dumps, export, result_document
from tuner.results.layouts import MeasuredLayout, Scaling
from tuner.results.study_view import StudyView
from tuner.stats.pairs import SIDE_BY_SIDE
from tuner.study.pairing import Pairs

STUDIES = {**study_samples.everything(), "live": study_samples.measured_live()}


def result_of(data: StudyView) -> str:
    return dumps(result_document(data.result, data.spec))


def scaling_of(data: StudyView) -> str:
    failed = MeasuredLayout(data.spec, data.spec.fixed)
    return dumps(Scaling([replace(failed, costs=[2.0]), failed], False).json())


def comparison_of(data: StudyView) -> str:
    pair = (data.records[1], data.records[1])
    pairs = Pairs([pair] * 3, is_side_by_side=True, rule=SIDE_BY_SIDE)
    return dumps(Comparison(("a", "b"), [data.spec] * 2, pairs, 0.05).json(["MPI: 4 -> 5"]))


@pytest.mark.parametrize("name", STUDIES)
def test_every_kind_of_study_is_written_by_the_schema(name: str) -> None:
    documents: tuple[Callable[[StudyView], str], ...] = (result_of,)
    if name not in {"only_failures", "nothing", "hostile"}:  # these have nothing to export
        documents += (lambda data: export(data).text,)
    if name in {"faster", "at_least", "side_by_side"}:
        documents += (scaling_of, comparison_of)
    for document in documents:
        check(json.loads(document(STUDIES[name])))


def test_the_schema_is_valid_and_strict() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(export(STUDIES["faster"]).text)
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda d: d.update(more=1),
        lambda d: d["result"].pop("verdict"),
        lambda d: d["launches"][0].update(number="1"),
        lambda d: d.update(schema="tuner.export/9"),
    )
    for change in changes:
        changed = copy.deepcopy(document)
        change(changed)
        with pytest.raises(AssertionError):
            check(changed)
