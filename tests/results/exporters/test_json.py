"""The JSON export holds all that was measured, in JSON's own types."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.study_samples import setting, study
from tuner.model import Purpose
from tuner.results.exporters.json import dumps, export, plain

DOCUMENT = json.loads(export(study()).text)
CONFIRMED = json.loads(export(samples.at_least()).text)


def test_every_launch_has_its_setting_exit_code_and_samples() -> None:
    assert DOCUMENT["schema"] == "tuner.export/1"
    assert [launch["exit_code"] for launch in DOCUMENT["launches"]] == [0, 0, 0, 0, 1]
    (sample,) = DOCUMENT["launches"][1]["samples"]
    known = {name: value for name, value in sample.items() if value is not None}
    assert known == {"elapsed_s": 3.6, "iterations": 20, "figure": 3.6}
    assert DOCUMENT["launches"][4]["ending"]["kind"] == "crashed"
    assert DOCUMENT["launches"][1]["effects"][0]["verdict"] == "honoured"


def test_the_best_setting_is_ready_to_use_and_the_study_is_there() -> None:
    best = DOCUMENT["best"]
    assert best["setting"] == {"communicator": "naive", "iterator_workers": 1, "omp_threads": 1}
    assert best["environment"] == {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    assert best["arguments"] == ["-j", "1", "--communicator", "naive"]
    spec = DOCUMENT["study"]
    assert spec["machine"]["cores"] == 4
    assert spec["knobs"][0]["route"] == {"environment": [*best["environment"]]}
    assert spec["left_out"] == {"opencv_threads": "the program does not load OpenCV"}


def test_only_jsons_own_types_come_out() -> None:
    value = {"a": (math.nan, math.inf, Path("x"), Purpose.SEARCH, setting(b=1)), 1: None}
    assert plain(value) == {"a": [None, None, "x", "search", {"b": 1}], "1": None}
    json.loads(dumps(value))


def test_a_proven_gain_and_a_stopped_launch_are_there() -> None:
    result = CONFIRMED["result"]
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
    assert (result["settings_failed"], result["settings_stopped"]) == (1, 1)
    (launch,) = (launch for launch in CONFIRMED["launches"] if launch["number"] == 5)
    assert (launch["samples"], launch["ending"]["state"]) == ([], "stopped")
    assert (launch["ending"]["bound_s"], launch["ending"]["projection_s"]) == (4.1, 9.8)
