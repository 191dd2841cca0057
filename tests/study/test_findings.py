"""What is said of a study beside its numbers."""

from __future__ import annotations

import pytest

from tests.study_samples import SPEC, setting, study
from tuner.model import BASELINE, StudyState
from tuner.study.findings import build
from tuner.study.plan import Plan


@pytest.mark.parametrize("elapsed_s", [None, 2.0])
def test_a_comparison_is_promised_only_where_there_is_one(elapsed_s: float | None) -> None:
    chosen = setting(omp_threads=1, iterator_workers=1, communicator="naive")
    records = study({BASELINE: None, chosen: elapsed_s}).records
    (note,) = build(Plan(SPEC, records), "tune.db", StudyState.FINISHED, "").notes
    assert note.startswith("your defaults fail (crashed: rank 1 ended with status 1)")
    assert ("the comparison is with" in note) is (elapsed_s is not None)
