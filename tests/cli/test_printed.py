"""What is printed of a study that was confirmed, stopped short, or left something out."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.cli.conftest import Tune, store_study
from tests.study_samples import SPEC, launched, searched
from tuner.cli import printed
from tuner.model import Measurement
from tuner.results.study_view import StudyView


def shown(data: StudyView, capsys: pytest.CaptureFixture[str]) -> str:
    printed.print_result(data, summary=False)
    printed.print_settings(data)
    return capsys.readouterr().out


def test_a_stored_study_is_shown_as_it_ended(tune: Tune, tmp_path: Path) -> None:
    for number, data in enumerate((samples.faster(), samples.at_least(), samples.no_gain())):
        path = store_study(tmp_path / f"{number}.db", data)
        document = json.loads(tune("show", "--json", "--storage", str(path)).out)["result"]
        assert data.result.conclusion is not None and data.result.finding is not None
        assert document["verdict"] == data.result.conclusion.value
        assert document["finding"]["low"] == pytest.approx(data.result.finding.low)
        assert document["export"] == data.best_setting.as_dict()


def test_without_a_gain_the_defaults_are_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "  best:      defaults\n"
        "             no significant gain: keep your defaults (1.01 times as fast, 95 % interval"
        " 1.00 to 1.02, 6 pairs)\n"
    ) in shown(samples.no_gain(), capsys)


def test_stopped_settings_are_told_from_measured_and_failed_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = shown(samples.at_least(), capsys).partition("\nSettings\n")[2].splitlines()
    first = [line.split()[0] for line in table]
    assert first == ["time", "3.60", "3.90", ">9.00", "~9.80", "failed", "~"]
    assert table[3].endswith("baseline")
    assert table[-1] == "  ~ projected, > at least: stopped early, as it could not win"


def test_a_core_budget_says_what_it_leaves_out(tune: Tune, tmp_path: Path) -> None:
    data = launched(searched(), spec=dataclasses.replace(SPEC, oversubscription=2.0))
    path = str(store_study(tmp_path / "x.db", data))
    block = tune("show", "--storage", path).out.partition("\nCore budget\n")[2].splitlines()
    assert "ask for 4 to 16 cores" in block[0]
    assert block[1].startswith("  not tried: 20 of the settings")
    assert block[1].endswith("(--oversubscribe 2)")
    lines = json.loads(tune("show", "--json", "--storage", path).out)["core_budget"]
    assert lines == [line.strip() for line in block[:2]]


def test_no_number_is_parted_from_its_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tuner.cli.console.is_live", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    for width in range(40, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        for data in (samples.faster(), samples.at_least(), samples.no_gain()):
            printed.print_result(data, summary=False)
            best = capsys.readouterr().out.partition("  best: ")[2].partition("\n\n")[0]
            assert not re.search(r"\d\n *(%|s|min|pairs?|runs?)(?!\w)", best)
            assert max(map(len, best.splitlines())) <= max(width, 60)


def losing(best: float | None, defaults: float | None) -> StudyView:
    """A study whose runs say what the training came to."""
    data = samples.faster()

    def with_loss(found: Measurement | None, loss: float | None) -> Measurement | None:
        if found is None:
            return None
        runs = tuple(dataclasses.replace(sample, loss=loss) for sample in found.samples)
        return dataclasses.replace(found, samples=runs)

    result = dataclasses.replace(
        data.result,
        candidate=with_loss(data.result.candidate, best),
        baseline=with_loss(data.result.baseline, defaults),
    )
    return dataclasses.replace(data, result=result)


def test_the_final_loss_of_both_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "  final loss 0.1235, with your defaults 0.13\n" in shown(losing(0.12345, 0.13), capsys)
    told = shown(losing(0.5, None), capsys)
    assert "final loss 0.5; your defaults never ran to their end (`tune profile`)" in told
    assert "final loss" not in shown(losing(None, 0.13), capsys)
    assert "final loss" not in shown(samples.no_gain(), capsys)
