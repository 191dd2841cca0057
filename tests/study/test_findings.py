"""What is said of a study beside its numbers."""

from __future__ import annotations

import pytest

from tests.study_samples import SPEC, capped_study, setting, study
from tuner.model import BASELINE, Cap, Result, Setting, StudyState
from tuner.study.findings import build
from tuner.study.plan import Plan


def found(times: dict[Setting, float | None]) -> Result:
    return build(Plan(SPEC, study(times).records), "tune.db", StudyState.FINISHED, "")


def chosen(omp_threads: int, communicator: str = "naive") -> Setting:
    return setting(omp_threads=omp_threads, iterator_workers=1, communicator=communicator)


@pytest.mark.parametrize("elapsed_s", [None, 2.0])
def test_a_failed_baseline_is_no_note(elapsed_s: float | None) -> None:
    """The comparison says it, with what stands in for the defaults."""
    assert found({BASELINE: None, chosen(1): elapsed_s}).notes == ()


def test_settings_that_failed_are_counted_apart() -> None:
    result = found({BASELINE: 1.0, chosen(1): 2.0, chosen(2): None, chosen(1, "flat"): None})
    assert (result.trials, result.settings_failed) == (3, 2)
    assert (result.launches, result.launches_measured) == (4, 2)


def test_a_cap_is_found_where_the_defaults_are_best() -> None:
    data = capped_study()
    result = build(Plan(SPEC, data.records), "tune.db", StudyState.FINISHED, "")
    assert result.best is not None and result.best.setting.is_baseline
    assert result.caps == (Cap("omp_threads", 2, "the library runs no more than 2 here"),)
