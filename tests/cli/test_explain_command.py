"""``tune explain`` on a stored study."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tune, store_study
from tests.explain_cases import WORK, host, of_all, ranks
from tests.study_samples import study
from tuner.model import LaunchRecord, Telemetry

CROWDED = Telemetry(
    (host(4.0), *ranks(2, 2.0, 6.0)),
    tuple(of_all(2, compute=(0.2, 0.6, 0.2))),
    ("No GPU was looked at.",),
)
BOUND = Telemetry((host(4.0), *ranks(2, 2.0)), tuple(of_all(2, compute=WORK)))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """The sample study: its baseline oversubscribes the cores, its best is bound by compute."""
    data = study()

    def watched(record: LaunchRecord) -> LaunchRecord:
        seen = CROWDED if record.setting.is_baseline else BOUND
        return dataclasses.replace(
            record, outcome=dataclasses.replace(record.outcome, telemetry=seen)
        )

    data = dataclasses.replace(data, records=tuple(map(watched, data.records)))
    return str(store_study(tmp_path / "tune.db", data))


def test_best_and_defaults_stand_side_by_side(tune: Tune, recorded: str) -> None:
    done = tune("explain", "--storage", recorded)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "Study mnist"
    assert lines[1].startswith("  best: omp_threads=1") and lines[1].endswith("launch 2, 3.60 s")
    assert "  baseline: defaults, launch 1, 8.32 s" in lines
    assert "best: nothing: bound by compute, 100 % of the time (clear)" in lines
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
    expected = {"knob": "omp_threads", "direction": "lower", "tuned": True}
    assert run["knob"] == expected
    figures = run["figures"]
    assert figures["host"]["user_cores"] == 4.0
    assert [each["columns"]["own_queue_threads"] for each in figures["ranks"]] == [6.0, 6.0]
    assert figures["ranks"][1]["phases"]["compute"]["queued"] == 0.6


@pytest.mark.parametrize("words", [("1",), ("mnist", "1")])
def test_one_trial(tune: Tune, recorded: str, words: tuple[str, ...]) -> None:
    done = tune("explain", *words, "--storage", recorded)
    assert "trial 1: nothing: bound by compute" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--launch", "99"), "study mnist has no launch 99"),
        (("9",), "has no trial 9"),
        (("mnist", "9"), "has no trial 9"),
        (("mnist", "one"), "'one' is not a valid integer range"),
        (("1", "--launch", "1"), "trial 1 and --launch 1"),
    ],
)
def test_what_cannot_be_explained_is_an_error(
    words: tuple[str, ...], said: str, tune: Tune, recorded: str
) -> None:
    done = tune("explain", *words, "--storage", recorded)
    assert done.code == 2
    assert said in done.err


def test_a_study_of_an_older_tune_has_nothing_recorded(tune: Tune, database: Path) -> None:
    done = tune("explain", "--storage", str(database))
    assert done.code == 0
    assert "what held it back cannot be told" in done.out
    assert "no knob" not in done.out
    assert "Nothing was recorded of this launch." in done.out
