"""The JSON export holds all that was measured, in JSON's own types."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.study_samples import capped_study, setting, study
from tuner.exporters.json import dumps, export, plain
from tuner.model import BASELINE, Purpose

DOCUMENT = json.loads(export(study()).text)


def test_the_schema_is_named() -> None:
    assert DOCUMENT["schema"] == "tuner.export/1"


def test_every_launch_has_its_setting_exit_code_and_samples() -> None:
    assert [launch["exit_code"] for launch in DOCUMENT["launches"]] == [0, 0, 0, 0, 1]
    assert [launch["samples"] for launch in DOCUMENT["launches"]][1:2] == [
        [{"elapsed_s": 3.6, "iterations": 20}]
    ]
    assert DOCUMENT["launches"][0]["setting"] == {}
    assert DOCUMENT["launches"][4]["ending"]["kind"] == "crashed"
    assert DOCUMENT["launches"][1]["effects"][0]["verdict"] == "honoured"


def test_the_best_setting_is_ready_to_use() -> None:
    best = DOCUMENT["best"]
    assert best["setting"] == {"communicator": "naive", "iterator_workers": 1, "omp_threads": 1}
    assert best["environment"] == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    assert best["arguments"] == ["-j", "1", "--communicator", "naive"]


def test_result_machine_and_study_are_there() -> None:
    assert DOCUMENT["result"]["ratio"] == pytest.approx(2.31)
    assert DOCUMENT["study"]["machine"]["cores"] == 4
    assert DOCUMENT["study"]["knobs"][0]["route"] == {
        "environment": ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    }
    assert DOCUMENT["study"]["left_out"] == {"opencv_threads": "the program does not load OpenCV"}


def test_best_defaults_are_marked() -> None:
    found = study({BASELINE: 3.0, setting(omp_threads=2): 4.0})
    assert json.loads(export(found).text)["best"]["is_baseline"] is True


def test_only_jsons_own_types_come_out() -> None:
    value = {"a": (math.nan, math.inf, Path("x"), Purpose.SEARCH, setting(b=1)), 1: None}
    assert plain(value) == {"a": [None, None, "x", "search", {"b": 1}], "1": None}
    json.loads(dumps(value))


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "export-schema.md").read_text()
    for part in (DOCUMENT, DOCUMENT["best"], DOCUMENT["result"], DOCUMENT["launches"][0]):
        for key in part:
            assert f"`{key}`" in text, key


def test_a_cap_is_there_where_the_defaults_are_best() -> None:
    (cap,) = json.loads(export(capped_study()).text)["result"]["caps"]
    assert (cap["knob"], cap["value"]) == ("omp_threads", 2)
