"""Formats are found by name and by suffix; what is handed over is the best setting."""

from __future__ import annotations

import pytest

from tests.study_samples import setting, study
from tuner import exporters
from tuner.errors import UsageError
from tuner.model import BASELINE


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


def test_nothing_measured_cannot_be_exported() -> None:
    with pytest.raises(UsageError, match="no measured setting"):
        _ = study({BASELINE: None}).best_setting


def test_failures_with_values_of_two_kinds_have_an_order() -> None:
    data = study({BASELINE: 3.0, setting(arenas="unset"): None, setting(arenas=1): None})
    assert [found.elapsed_s for found in data.measurements] == [3.0, None, None]


def test_measurements_come_fastest_first_failures_last() -> None:
    times = [found.elapsed_s for found in study().measurements]
    assert times == [3.6, 3.9, 7.1, 8.316, None]
