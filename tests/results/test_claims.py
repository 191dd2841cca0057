"""What a result says, for each thing that can come of a study."""

from __future__ import annotations

import dataclasses

import pytest

from tests import study_samples as samples
from tests.study_samples import FAST, SPEC, launched, searched, setting, stopped, study
from tuner.model import BASELINE, Conclusion, Finding, Purpose, Stopped
from tuner.results import claims
from tuner.results.claims import BreakEven
from tuner.results.study_view import StudyView
from tuner.study.fewest import Contribution

TWO_SIDED = Finding(2.312, 2.24, 2.39, 6, "faster")
AT_LEAST = Finding(2.7, 2.509, None, 4, "faster")
CRASHED = "crashed: rank 1 ended with status 1"
GUESS = "communicator=naive iterator_workers=2 omp_threads=1"


def test_a_comparison_says_what_stands_behind_it() -> None:
    assert claims.comparison(study().result) == (
        "2.31 times faster than your defaults (3.60 s against 8.32 s, 1 run each; not confirmed)"
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.97, 1.04, "no effect seen (0.97 to 1.04)"),
        (0.7, 1.6, "not clear (0.70 to 1.60)"),
        (1.2, 1.6, "1.10 times (1.20 to 1.60)"),
        (1.2, None, "at least 1.20 times"),
    ],
)
def test_no_effect_takes_a_narrow_interval(low: float, high: float | None, said: str) -> None:
    found = Contribution("omp_threads", 1, 1.1, low, high, was_launched=True)
    assert claims.contribution(found, 0.02) == said


def test_slower_is_called_slower() -> None:
    found = study().result
    assert found.best is not None and found.reference is not None
    swapped = dataclasses.replace(found, candidate=found.reference, reference=found.best)
    assert "2.31 times slower than " in claims.comparison(swapped)


@pytest.mark.parametrize("elapsed_s", [3.0, 3.004, 2.996])
def test_equal_times_are_called_equal(elapsed_s: float) -> None:
    found = study({BASELINE: 3.0, setting(omp_threads=2): elapsed_s}).result
    fixed = dataclasses.replace(found, candidate=found.baseline, reference=found.baseline)
    assert found.best is not None
    other = next(m for m in study({setting(omp_threads=2): elapsed_s}).measurements)
    text = claims.comparison(dataclasses.replace(fixed, candidate=other))
    assert text.startswith("as fast as your defaults (3.00 s against 3.00 s")


def test_a_setting_that_failed_is_not_called_slow() -> None:
    slow, failed = {samples.SLOW: 4.0}, {samples.BROKEN: None}
    assert claims.comparison(study({BASELINE: 3.0, **slow, **failed}).result) == (
        "3.00 s; none of 1 other measured setting was faster (1 other failed)"
    )
    assert claims.comparison(study({BASELINE: 3.0, **failed}).result) == (
        "3.00 s; no other setting could be measured (1 failed)"
    )


def concluded(data: StudyView, finding: Finding | None) -> str:
    return claims.comparison(dataclasses.replace(data.result, finding=finding))


def test_a_proven_gain_has_an_interval() -> None:
    assert concluded(samples.faster(), TWO_SIDED) == (
        "2.31 times faster than your defaults (95 % interval 2.24 to 2.39, 6 pairs in turn)"
    )


def test_a_bound_is_never_rounded_up() -> None:
    assert concluded(samples.at_least(), AT_LEAST).startswith(
        "at least 2.50 times faster than your defaults (95 % sure, 4 pairs in turn"
    )
    for low, said in ((9.999, "9.99"), (25.99, "25.9"), (262.9, "262")):
        of_many = dataclasses.replace(AT_LEAST, low=low)
        assert concluded(samples.at_least(), of_many).startswith(f"at least {said} times faster")
    lower = dataclasses.replace(AT_LEAST, low=2.0)
    assert concluded(samples.at_least(), lower).endswith("4 pairs in turn; projected: 8.3 times)")
    assert samples.at_least().result.conclusion is Conclusion.FASTER
    assert concluded(samples.faster(), AT_LEAST).endswith("turn; 2.3 times by the medians)")


def test_a_bound_times_a_constant_is_not_called_a_projection() -> None:
    by_clock = Stopped(10.8, 12.96, 10.8, None, 0.5, "elapsed")
    found = launched([*searched(by_clock), *samples.cut_in_turn(9.0, 3.6)])
    said = claims.comparison(dataclasses.replace(found.result, finding=AT_LEAST))
    assert said == "at least 2.50 times faster than your defaults (95 % sure, 4 pairs in turn)"
    assert claims.comparison(launched(searched(by_clock)).result) == (
        "3.60 s; your defaults were stopped after 10.8 s; not confirmed"
    )


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (
            Finding(1.012, 0.974, 1.019, 10, "no gain worth having"),
            "no gain worth having: keep your defaults"
            " (1.01 times as fast, 95 % interval 0.97 to 1.02, 10 pairs in turn)",
        ),
        (
            Finding(0.912, 0.874, 0.951, 6, "slower"),
            "nothing is faster: keep your defaults"
            " (0.91 times as fast, 95 % interval 0.87 to 0.95, 6 pairs in turn)",
        ),
        (
            Finding(1.04, 0.95, 1.12, 6, "inconclusive", 9),
            "inconclusive: keep your defaults"
            " (1.04 times as fast, 95 % interval 0.95 to 1.12, 6 pairs in turn;"
            " about 9 more pairs may tell: the same command with --confirm more)",
        ),
        (
            Finding(1.01, 0.92, 1.12, 6, "inconclusive"),
            "inconclusive: keep your defaults"
            " (1.01 times as fast, 95 % interval 0.92 to 1.12, 6 pairs in turn;"
            " it is too small to be told beside the noise of these runs)",
        ),
        (
            Finding(1.9, 0.989, None, 10, "inconclusive", 6),
            "inconclusive: keep your defaults"
            " (at least 0.98 times as fast, 95 % sure, 10 pairs in turn;"
            " about 6 more pairs may tell: the same command with --confirm more)",
        ),
    ],
)
def test_where_no_gain_is_proven_the_defaults_are_kept(finding: Finding, why: str) -> None:
    unknown = finding.claim == "inconclusive"
    conclusion = Conclusion.INCONCLUSIVE if unknown else Conclusion.NO_GAIN
    data = samples.no_gain()
    found = dataclasses.replace(data.result, finding=finding, conclusion=conclusion)
    assert claims.comparison(found) == why


def test_what_was_not_worth_a_confirmation_is_no_gain_either() -> None:
    found = samples.not_pursued().result
    assert (found.conclusion, found.finding) == (Conclusion.NO_GAIN, None)
    assert claims.comparison(found) == (
        "no gain worth having: keep your defaults;"
        " none of 3 other measured settings was faster (1 other failed)"
    )


def test_a_best_that_fails_when_launched_again_is_no_gain() -> None:
    again = [(Purpose.CONFIRM, FAST, None)] * 2
    assert claims.comparison(launched([*searched(), *again]).result) == (
        "no gain worth having: keep your defaults;"
        " the best setting failed when it was launched again"
    )


def test_defaults_that_leave_out_what_is_fixed_cannot_be_kept() -> None:
    spec = dataclasses.replace(SPEC, fixed=setting(communicator="naive"))
    made = [each for each in searched(3.0) if each[1] != samples.BROKEN]
    found = launched([*made, *samples.in_turn(3.0, 4.2, 3)], spec=spec).result
    assert claims.comparison(found).startswith(
        "nothing is faster than your defaults (0.72 times as fast, 95 % interval"
    )


def test_defaults_that_fail_are_said_with_what_the_best_is_compared_with() -> None:
    assert concluded(samples.failing(), TWO_SIDED) == (
        f"your defaults fail ({CRASHED}); 2.31 times faster than the first guess that worked,"
        f" {GUESS} (95 % interval 2.24 to 2.39, 6 pairs in turn)"
    )


def test_no_gain_over_the_first_guess_asks_nobody_to_keep_it() -> None:
    no_gain = Finding(1.01, 0.97, 1.02, 6, "no gain worth having")
    assert concluded(samples.failing(), no_gain) == (
        f"your defaults fail ({CRASHED}); no gain worth having against the first guess that worked,"
        f" {GUESS} (1.01 times as fast, 95 % interval 0.97 to 1.02, 6 pairs in turn)"
    )


def test_a_first_guess_that_stays_best_is_compared_with_nothing() -> None:
    found = launched(searched(None)).result
    assert (found.conclusion, found.finding) == (Conclusion.BASELINE_FAILS, None)
    assert claims.comparison(found) == (
        f"your defaults fail ({CRASHED});"
        " none of 2 other measured settings was faster (1 other failed)"
    )


def test_defaults_may_fail_in_the_confirmation_only() -> None:
    again = [(Purpose.CONFIRM, BASELINE, None)] * 2
    found = launched([*searched(), *again]).result
    assert found.conclusion is Conclusion.BASELINE_FAILS
    assert claims.comparison(found).startswith(
        "your defaults failed when they were launched again; "
    )


def test_defaults_that_were_stopped_give_no_ratio_before_the_confirmation() -> None:
    assert claims.comparison(launched(searched(stopped(10.8, 30.0))).result) == (
        "3.60 s; your defaults were stopped after 10.8 s (projected 30.0 s); not confirmed"
    )


def test_a_study_that_is_not_confirmed_claims_no_more_than_its_medians() -> None:
    found = launched(searched(), spec=dataclasses.replace(SPEC, confirm="none")).result
    assert (found.conclusion, found.finding) == (None, None)
    assert claims.comparison(found) == (
        "2.31 times faster than your defaults (3.60 s against 8.32 s, medians of 2 and 1 runs;"
        " not confirmed)"
    )


@pytest.mark.parametrize(
    ("conclusion", "finding", "ratio", "text"),
    [
        (None, None, None, ""),
        (None, None, 2.314, "2.31x?"),
        (Conclusion.FASTER, TWO_SIDED, 2.5, "2.31x (2.24 to 2.39)"),
        (Conclusion.FASTER, AT_LEAST, None, ">= 2.50x"),
        (Conclusion.NO_GAIN, None, 0.9, "no gain"),
        (Conclusion.NO_GAIN, TWO_SIDED, 0.9, "no gain"),
        (Conclusion.BASELINE_FAILS, TWO_SIDED, None, "defaults fail"),
    ],
)
def test_a_gain_in_a_table(
    conclusion: Conclusion | None, finding: Finding | None, ratio: float | None, text: str
) -> None:
    assert claims.gain(conclusion, finding, ratio) == text


@pytest.mark.parametrize(
    ("paid", "text"),
    [
        (
            BreakEven(361.0, 12.3, "epoch", 30, at_least=False),
            "the tuning took 6 min 01 s; an epoch saves 12.3 s: break-even after 30 epochs",
        ),
        (
            BreakEven(50.0, 60.0, "run", 1, at_least=False),
            "the tuning took 50 s; a run as measured saves 60.0 s: break-even after 1 run",
        ),
        (
            BreakEven(4000.0, 5.0, "run", 800, at_least=True),
            "the tuning took 1 h 06 min; a run as measured saves at least 5.00 s:"
            " break-even after at most 800 runs",
        ),
    ],
)
def test_the_break_even(paid: BreakEven, text: str) -> None:
    assert str(paid) == text


@pytest.mark.parametrize(
    ("settings_failed", "settings_stopped", "text"),
    [
        (0, 0, "4 settings measured"),
        (0, 2, "4 settings tried (2 stopped early)"),
        (1, 0, "4 settings tried (1 failed)"),
        (1, 2, "4 settings tried (2 stopped early, 1 failed)"),
    ],
)
def test_what_was_measured(settings_failed: int, settings_stopped: int, text: str) -> None:
    found = dataclasses.replace(
        study().result, settings_failed=settings_failed, settings_stopped=settings_stopped
    )
    assert claims.measured(found) == text
