"""Formats are found by name and by suffix; what is handed over is the best setting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import study_samples as samples
from tests.study_samples import FAST, FILES, setting, study
from tuner.model import BASELINE, Conclusion, Setting
from tuner.model.errors import UsageError
from tuner.results import exporters
from tuner.results.study_view import StudyView


@pytest.mark.parametrize("name", FILES)
def test_every_format_without_a_server_exports_an_ordinary_study(name: str) -> None:
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


def test_defaults_that_never_ran_to_their_end_are_handed_over_if_nothing_is_proven() -> None:
    data = samples.at_least()
    unclear = replace(data.result, export=BASELINE, conclusion=Conclusion.INCONCLUSIVE)
    assert replace(data, result=unclear).best_setting == BASELINE


def test_nothing_measured_cannot_be_exported() -> None:
    with pytest.raises(UsageError, match="no measured setting"):
        _ = study({BASELINE: None}).best_setting


def test_stopped_settings_come_by_their_projection_before_the_failures() -> None:
    found = samples.at_least().measurements
    assert [each.elapsed_s is not None for each in found] == [True, True, False, False, False]
    projections = [each.stopped.projection_s for each in found if each.stopped]
    assert projections == sorted(projections) == [9.8, 30.0]
    assert found[-1].failure is not None
