"""How results are put into words."""

from __future__ import annotations

import dataclasses

import pytest

from tests.study_samples import SPEC, setting, study
from tuner import wording
from tuner.model import BASELINE, Cap, Effect, Result, StudyState, Verdict


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.9412, "0.941 s"), (8.314, "8.31 s"), (83.14, "83.1 s"), (831.4, "831 s")],
)
def test_seconds_have_three_digits(value_s: float, text: str) -> None:
    assert wording.seconds(value_s) == text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (-1, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (700, "11 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(value_s: float, text: str) -> None:
    assert wording.duration(value_s) == text


@pytest.mark.parametrize(("value_s", "text"), [(7, "0:07"), (760, "12:40"), (3725, "1:02:05")])
def test_clock(value_s: float, text: str) -> None:
    assert wording.clock(value_s) == text


def test_a_comparison_says_what_stands_behind_it() -> None:
    assert wording.comparison(study().result) == (
        "2.31 times faster than your defaults (3.60 s against 8.32 s, 1 run each;"
        " not yet confirmed by repeats)"
    )


def test_a_best_baseline_claims_nothing() -> None:
    found = study({BASELINE: 3.0, setting(omp_threads=2): 4.0})
    assert wording.comparison(found.result) == "3.00 s; the one other setting was not faster"
    assert wording.comparison(study({BASELINE: 3.0}).result) == (
        "3.00 s; no other setting was tried"
    )


def test_slower_is_called_slower() -> None:
    found = study().result
    assert found.best is not None and found.reference is not None
    swapped = dataclasses.replace(found, best=found.reference, reference=found.best)
    assert "2.31 times slower than " in wording.comparison(swapped)


def test_a_failed_baseline_is_said_and_the_first_that_worked_is_the_reference() -> None:
    found = study({BASELINE: None, setting(omp_threads=1): 4.0, setting(omp_threads=2): 2.0})
    text = wording.comparison(found.result)
    assert text.startswith("2.00 times faster than omp_threads=1, the first guess that worked")
    assert "your defaults failed (crashed: rank 1 ended with status 1)" in text


def test_a_reference_that_stays_best_is_not_counted_among_the_others() -> None:
    """Of three settings two are others; and that the defaults failed is said."""
    times = {setting(omp_threads=1): 2.0, setting(omp_threads=2): 4.0, setting(omp_threads=3): 5.0}
    assert wording.comparison(study({BASELINE: None, **times}).result) == (
        "2.00 s; none of 2 other settings was faster;"
        " your defaults failed (crashed: rank 1 ended with status 1)"
    )


@pytest.mark.parametrize("elapsed_s", [3.0, 3.004, 2.996])
def test_equal_times_are_called_equal(elapsed_s: float) -> None:
    found = study({BASELINE: 3.0, setting(omp_threads=2): elapsed_s}).result
    fixed = dataclasses.replace(found, best=found.baseline, reference=found.baseline)
    assert found.best is not None
    other = next(m for m in study({setting(omp_threads=2): elapsed_s}).measurements)
    text = wording.comparison(dataclasses.replace(fixed, best=other))
    assert text.startswith("as fast as your defaults (3.00 s against 3.00 s")


def test_nothing_measured_names_the_failure() -> None:
    found = study({BASELINE: None})
    assert "crashed" in wording.comparison(found.result)


def test_no_result_at_all_gives_the_reason() -> None:
    result = Result("x", "db", StudyState.FAILED, "no luck", None, None, None, 0, 0, 0)
    assert wording.comparison(result) == "no luck"


def test_runs_on_each_side_are_counted() -> None:
    best = study().result.best
    assert best is not None
    three = dataclasses.replace(best, samples=best.samples * 3)
    assert wording.runs(three, best) == "medians of 3 and 1 runs"
    assert wording.runs(three, three) == "medians of 3 runs each"


def test_settings_follow_the_order_of_the_knobs() -> None:
    chosen = setting(communicator="naive", iterator_workers=2, omp_threads=1)
    assert (
        wording.assigned(chosen, SPEC.knobs)
        == "omp_threads=1 iterator_workers=2 communicator=naive"
    )
    assert wording.assigned(BASELINE, SPEC.knobs) == "defaults"


def test_a_setting_that_failed_is_not_called_slow() -> None:
    slow, failed = {setting(omp_threads=2): 4.0}, {setting(omp_threads=3): None}
    assert wording.comparison(study({BASELINE: 3.0, **slow, **failed}).result) == (
        "3.00 s; none of 1 measured other setting was faster (1 other failed)"
    )
    assert wording.comparison(study({BASELINE: 3.0, **failed}).result) == (
        "3.00 s; no other setting could be measured (1 failed)"
    )


def test_a_cap_without_a_reason() -> None:
    assert wording.capped(Cap("t", 2)) == "t: 3 and more come to 2 here (capped)"


@pytest.mark.parametrize(
    ("observed", "verdict", "text"),
    [
        (2, Verdict.CAPPED, "omp_threads=8 (came to 2)"),
        (1, Verdict.OVERRIDDEN, "omp_threads=8 (came to 1)"),
        (None, Verdict.OVERRIDDEN, "omp_threads=8"),
        (3, Verdict.NOT_OBSERVABLE, "omp_threads=8"),
        (8, Verdict.HONOURED, "omp_threads=8"),
    ],
)
def test_what_a_value_came_to(observed: int | None, verdict: Verdict, text: str) -> None:
    effects = (Effect("omp_threads", 8, observed, verdict),)
    assert wording.assigned(setting(omp_threads=8), SPEC.knobs, effects) == text


@pytest.mark.parametrize(("length", "shown"), [(60, 60), (61, 60), (500, 60)])
def test_a_long_value_in_a_table(length: int, shown: int) -> None:
    assert len(wording.shortened("x" * length)) == shown
