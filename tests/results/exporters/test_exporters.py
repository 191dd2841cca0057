"""Formats are found by name and by suffix; what is handed over is the best setting."""

from __future__ import annotations

import dataclasses

import pytest

from tests import study_samples as samples
from tests.study_samples import FAST, NEXT, SPEC, launched, searched, setting, study
from tuner.model import BASELINE, Finding, Setting, StudyState
from tuner.model.errors import UsageError
from tuner.results import exporters
from tuner.results.study_view import StudyView


@pytest.mark.parametrize("name", ["sh", "env", "json", "args", "csv", "md"])
def test_every_shipped_format_exports_an_ordinary_study(name: str) -> None:
    assert exporters.exporter_for(name)(study()).text.endswith("\n")


def test_an_unknown_format_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        exporters.exporter_for("no-such-format")
    assert "no-such-format" in caught.value.message
    assert "sh, env, json" in caught.value.hint


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("job.sh", "sh"),
        ("a/best.env", "env"),
        (".env", "env"),
        ("x.md", "md"),
        ("x", "sh"),
        ("", "sh"),
        ("a.b/x", "sh"),
    ],
)
def test_the_suffix_names_the_format(filename: str, name: str) -> None:
    assert exporters.format_of(filename) == name


@pytest.mark.parametrize("filename", ["x.JSON", "x.no-such-format", "job.sh.bak", ".bashrc.x"])
def test_a_suffix_without_a_format_is_refused(filename: str) -> None:
    with pytest.raises(UsageError, match="no format goes by the suffix"):
        exporters.format_of(filename)


def test_the_fastest_setting_is_handed_over() -> None:
    assert study().best_setting.as_dict()["omp_threads"] == 1
    assert not study().keeps_defaults


def test_where_nothing_is_faster_the_defaults_are_handed_over() -> None:
    found = study({BASELINE: 3.0, setting(omp_threads=2): 4.0})
    assert found.keeps_defaults


def test_where_the_defaults_fail_the_best_that_works_is_handed_over() -> None:
    found = study({BASELINE: None, setting(omp_threads=2): 4.0})
    assert found.best_setting == setting(omp_threads=2)


@pytest.mark.parametrize(
    ("data", "handed_over"),
    [
        (samples.faster(), FAST),
        (samples.at_least(), FAST),
        (samples.no_gain(), BASELINE),
        (samples.not_pursued(), BASELINE),
        (samples.failing(), FAST),
    ],
)
def test_a_confirmed_study_hands_over_what_is_proven(data: StudyView, handed_over: Setting) -> None:
    assert data.best_setting == data.result.export == handed_over
    assert data.keeps_defaults is handed_over.is_baseline


def test_a_ratio_of_medians_above_one_is_not_enough() -> None:
    data = samples.no_gain()
    assert data.result.ratio is not None and data.result.ratio > 1
    assert data.keeps_defaults


@pytest.mark.parametrize("state", [StudyState.INTERRUPTED, StudyState.RUNNING])
def test_until_it_is_confirmed_the_medians_decide(state: StudyState) -> None:
    made = searched(), [*searched(), *samples.in_turn(8.3, 3.6, 2)]
    for data in (launched(each, state=state) for each in made):
        assert (data.result.export, data.best_setting) == (None, FAST)


def test_without_a_confirmation_the_medians_decide() -> None:
    spec = dataclasses.replace(SPEC, confirm=False)
    assert launched(searched(), spec=spec).best_setting == FAST
    assert launched(searched(3.0), spec=spec).keeps_defaults


def test_a_first_guess_that_proves_faster_than_the_best_is_handed_over() -> None:
    made = searched(None)
    made[1] = (made[1][0], NEXT, 3.7)
    data = launched([*made, *samples.in_turn(3.3, 3.6, 6, NEXT)])
    assert isinstance(data.result.finding, Finding)
    assert data.result.finding.claim == "slower"
    assert data.best_setting == NEXT


def test_nothing_measured_cannot_be_exported() -> None:
    with pytest.raises(UsageError, match="no measured setting"):
        _ = study({BASELINE: None}).best_setting


def test_failures_with_values_of_two_kinds_have_an_order() -> None:
    data = study({BASELINE: 3.0, setting(arenas="unset"): None, setting(arenas=1): None})
    assert [found.elapsed_s for found in data.measurements] == [3.0, None, None]


def test_measurements_come_fastest_first_failures_last() -> None:
    times = [found.elapsed_s for found in study().measurements]
    assert times == [3.6, 3.9, 7.1, 8.316, None]


def test_stopped_settings_come_by_their_projection_before_the_failures() -> None:
    found = samples.at_least().measurements
    assert [each.elapsed_s is not None for each in found] == [True, True, False, False, False]
    projections = [each.stopped.projection_s for each in found if each.stopped]
    assert projections == sorted(projections) == [9.0, 9.8]
    assert found[-1].failure is not None
