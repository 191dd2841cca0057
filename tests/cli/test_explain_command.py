from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Tune, store_study
from tests.explain_cases import WORK, host, of_all, ranks
from tests.study_samples import study
from tuner.model import Telemetry

CROWDED = Telemetry(
    (host(4.0), *ranks(2, 2.0, 6.0)),
    tuple(of_all(2, compute=(0.2, 0.6, 0.2))),
    ("No GPU was looked at.",),
)
BOUND = Telemetry((host(4.0), *ranks(2, 2.0)), tuple(of_all(2, compute=WORK)))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """The sample study: its baseline oversubscribes the cores, its best is bound by compute."""
    data, records = study(), []
    for record in data.records:
        telemetry = CROWDED if record.setting.is_baseline else BOUND
        records.append(replace(record, outcome=replace(record.outcome, telemetry=telemetry)))
    return str(store_study(tmp_path / "tune.db", replace(data, records=tuple(records))))


def test_best_and_defaults_stand_side_by_side(tune: Tune, recorded: str) -> None:
    done = tune("explain", "--storage", recorded)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "Study mnist"
    assert lines[1].startswith("  best: omp_threads=1") and lines[1].endswith("launch 2, 3.60 s")
    assert "  baseline: defaults, launch 1, 8.32 s" in lines
    assert "best: bound by compute, 100 % of the time (clear)" in lines
    drown = "baseline: held back by cores oversubscribed by the ranks' own threads"
    assert any(line.startswith(drown) for line in lines)
    assert "  a lower omp_threads addresses it" in lines
    assert lines[-2:] == ["Not seen", "  No GPU was looked at."]


def test_one_launch_as_json(tune: Tune, recorded: str) -> None:
    done = tune("explain", "mnist", "--launch", "1", "--json", "--storage", recorded)
    document = json.loads(done.out)
    assert (document["schema"], document["study"]) == ("tuner.explain/1", "mnist")
    (run,) = document["runs"]
    assert (run["name"], run["launch"], run["verdict"]) == ("launch 1", 1, "own_threads")
    assert run["knob"] == {"knob": "omp_threads", "direction": "lower", "tuned": True}
    figures = run["figures"]
    assert figures["host"]["user_cores"] == 4.0
    assert [each["columns"]["own_queue_threads"] for each in figures["ranks"]] == [6.0, 6.0]
    assert figures["ranks"][1]["phases"]["compute"]["queued"] == 0.6


def test_a_launch_that_is_not_there_is_an_error(tune: Tune, recorded: str) -> None:
    done = tune("explain", "--launch", "99", "--storage", recorded)
    assert done.code == 2 and "study mnist has no launch 99" in done.err
