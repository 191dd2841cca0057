"""The JSON export holds all that was measured, in JSON's own types."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.study_samples import setting, study
from tuner.model import Conclusion, Purpose
from tuner.results.exporters.json import dumps, export, plain
from tuner.results.study_view import StudyView

DOCUMENT = json.loads(export(study()).text)
CONFIRMED = json.loads(export(samples.at_least()).text)
DOCS = (Path(__file__).parents[3] / "docs" / "export-schema.md").read_text()


def test_the_schema_is_named() -> None:
    assert DOCUMENT["schema"] == "tuner.export/1"


def test_every_launch_has_its_setting_exit_code_and_samples() -> None:
    assert [launch["exit_code"] for launch in DOCUMENT["launches"]] == [0, 0, 0, 0, 1]
    (sample,) = DOCUMENT["launches"][1]["samples"]
    assert {name: value for name, value in sample.items() if value is not None} == {
        "elapsed_s": 3.6,
        "iterations": 20,
        "figure": 3.6,
    }
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


def test_only_jsons_own_types_come_out() -> None:
    value = {"a": (math.nan, math.inf, Path("x"), Purpose.SEARCH, setting(b=1)), 1: None}
    assert plain(value) == {"a": [None, None, "x", "search", {"b": 1}], "1": None}
    json.loads(dumps(value))


def test_a_proven_gain_is_there() -> None:
    result = CONFIRMED["result"]
    assert result["verdict"] == "faster"
    assert result["finding"] == {
        "ratio": pytest.approx(2.5),
        "low": pytest.approx(2.2, abs=0.01),
        "high": None,
        "pairs": 3,
        "claim": "faster",
        "pairs_missing": None,
        "is_side_by_side": False,
    }
    assert result["export"] == CONFIRMED["best"]["setting"] != {}
    assert result["search_s"] == pytest.approx(sum(walls(*set(Purpose) - {Purpose.CONFIRM})))
    assert result["confirm_s"] == pytest.approx(sum(walls(Purpose.CONFIRM)))
    assert (result["settings_failed"], result["settings_stopped"]) == (1, 1)


def walls(*purposes: Purpose) -> list[float]:
    return [each["wall_s"] for each in CONFIRMED["launches"] if each["purpose"] in purposes]


def test_before_the_confirmation_there_is_no_verdict() -> None:
    result = DOCUMENT["result"]
    assert (result["verdict"], result["finding"], result["export"]) == (None, None, None)


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (samples.no_gain(), "no gain worth having"),
        (samples.not_pursued(), "no gain worth having"),
        (samples.inconclusive(), "inconclusive"),
        (samples.failing(), "baseline fails"),
    ],
)
def test_every_verdict_has_its_word(data: StudyView, verdict: str) -> None:
    document = json.loads(export(data).text)
    assert document["result"]["verdict"] == verdict
    assert document["best"]["is_baseline"] is (verdict in {"no gain worth having", "inconclusive"})


def test_a_stopped_launch_has_a_bound_and_a_projection() -> None:
    (launch,) = (each for each in CONFIRMED["launches"] if each["number"] == 5)
    assert launch["samples"] == []
    assert launch["ending"] == {
        "state": "stopped",
        "bound_s": 4.1,
        "projection_s": 9.8,
        "low_s": pytest.approx(7.84),
        "high_s": pytest.approx(11.76),
        "log_sd": 0.1,
        "rule": "drift",
    }
    (found,) = (each for each in CONFIRMED["measurements"] if each["setting"] == launch["setting"])
    assert found["elapsed_s"] is None
    assert found["stopped"]["projection_s"] == 9.8


def test_every_purpose_has_its_word() -> None:
    assert [each["purpose"] for each in CONFIRMED["launches"]] == [
        *("warm-up", "guess", "baseline", *["search"] * 3, "repeat"),
        *["confirm"] * 7,
    ]


def test_every_key_is_documented() -> None:
    launches, measurements = CONFIRMED["launches"], CONFIRMED["measurements"]
    parts = [DOCUMENT, DOCUMENT["best"], DOCUMENT["study"], CONFIRMED["result"]]
    parts += [CONFIRMED["result"]["finding"], *launches, *measurements]
    parts += [launch["ending"] for launch in launches]
    parts += [sample for launch in launches for sample in launch["samples"]]
    for key in {key for part in parts for key in part}:
        assert f"`{key}`" in DOCS, key


def test_every_purpose_and_verdict_is_documented() -> None:
    for word in (*Conclusion, *Purpose):
        assert f"`{word}`" in DOCS, word
