"""What is said of a study beside its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.study_samples import SPEC, setting, study
from tests.study_surface import CONFIRMED, CRASH, crash, nearly_flat, played, ran, record
from tests.study_surface import SPEC as SEARCHED
from tuner.model import (
    BASELINE,
    Conclusion,
    Ending,
    Exclusion,
    ExclusionKind,
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
)
from tuner.results.exporters.json import result_json
from tuner.stats import evidence
from tuner.study.findings import build, summary
from tuner.study.history import History
from tuner.study.policy import SearchThenConfirm
from tuner.study.tuning import REMEASURED

UNCONFIRMED = replace(SPEC, confirm="none")


def result_of(
    history: History, best: Setting | None, state: StudyState = StudyState.FINISHED
) -> Result:
    return build(history, "tune.db", state, "", best)


def found(times: dict[Setting, float | None], spec: StudySpec = UNCONFIRMED) -> Result:
    history = History.judged(spec, study(times).records)
    measured = (m for m in evidence.measurements(history.records))
    best = evidence.best(m for m in measured if not m.setting.is_baseline)
    return result_of(history, best.setting if best else None)


def chosen(omp_threads: int, communicator: str = "naive") -> Setting:
    return setting(omp_threads=omp_threads, iterator_workers=1, communicator=communicator)


def test_no_setting_is_called_the_answer_if_the_verdict_is_no_gain() -> None:
    history = played(CONFIRMED, lambda s: 1.0005 if s.is_baseline else nearly_flat(s))
    result = result_of(history, SearchThenConfirm().best(history))
    assert result.conclusion is Conclusion.NO_GAIN
    assert result.candidate is not None and not result.candidate.setting.is_baseline
    assert result.best == result.baseline
    document = result_json(result, CONFIRMED)
    assert document["best"] == document["baseline"] != document["candidate"]
    assert result.baseline is not None
    line = summary(result)
    assert (line.best_setting, line.best_s) == (BASELINE, result.baseline.elapsed_s)


@pytest.mark.parametrize(
    ("default", "other"),
    [(CRASH, nearly_flat), (0.5, nearly_flat), (1.02, nearly_flat), (4.0, crash)],
)
@pytest.mark.parametrize("spec", [CONFIRMED, SEARCHED])
@pytest.mark.parametrize("state", [StudyState.RUNNING, StudyState.FINISHED])
def test_what_the_list_keeps_gives_the_same_result_again(
    default: float | Ending, other: Any, spec: StudySpec, state: StudyState
) -> None:
    """`tune show` has no search to ask: it goes by the best setting that was written down."""
    history = played(spec, lambda s: default if s.is_baseline else other(s))
    ends = len(history.records)
    for length in [ends] if state is StudyState.FINISHED else range(1, ends + 1):
        part = history.with_records(history.records[:length])
        now = result_of(part, SearchThenConfirm().best(part), state)
        assert result_of(part, summary(now).candidate, state) == now


def test_the_best_that_keeps_the_numerics_is_named_where_the_best_does_not() -> None:
    knobs = tuple(
        replace(each, changes_numerics=True, neutral=1) if each.name == "omp_threads" else each
        for each in UNCONFIRMED.knobs
    )
    spec = replace(UNCONFIRMED, knobs=knobs)
    times: dict[Setting, float | None] = {BASELINE: 9.0, chosen(1): 4.0, chosen(2): 3.0}
    kept = found(times, spec).best_keeping
    assert kept is not None and kept.setting == chosen(1)
    assert found({BASELINE: 9.0, chosen(1): 2.0, chosen(2): 3.0}, spec).best_keeping is None
    assert found(times).best_keeping is None
    defaults = found({BASELINE: 3.5, chosen(1): 4.0, chosen(2): 3.0}, spec).best_keeping
    assert defaults is not None and defaults.setting.is_baseline


def test_launches_that_do_not_count_are_told_with_the_last_reason() -> None:
    reasons = ["launch 2 failed beside another one: in use", "number 3 was on a slower host"]
    kinds = [ExclusionKind.SIDE_BY_SIDE, ExclusionKind.OTHER_HOST]
    made = [record(n, BASELINE, Purpose.SEARCH, ran(4.0)) for n in (1, 2, 3, 4)]
    whys = [REMEASURED, *map(Exclusion, kinds, reasons), None]
    records = [
        replace(launch, outcome=replace(launch.outcome, exclusion=why))
        for launch, why in zip(made, whys, strict=True)
    ]
    result = build(History.judged(SEARCHED, records), "", StudyState.RUNNING, "", None)
    assert [note for note in result.notes if "count" in note or "excluded" in note] == [
        f"2 launches were excluded (the last one, number 3: {reasons[1]})",
        "1 earlier launch not counted: --remeasure",
    ]
