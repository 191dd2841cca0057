"""What a result says, for each thing that can come of a study; whole studies are snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import study_samples as samples
from tests.study_samples import SPEC, launched, searched, setting, stopped, study
from tuner.model import BASELINE, Conclusion, Finding, Finished, Measurement, Purpose, Result
from tuner.results import claims
from tuner.results.study_view import StudyView
from tuner.study.fewest import Contribution

TWO_SIDED = Finding(2.312, 2.24, 2.39, 6, "faster")
AT_LEAST = Finding(2.7, 2.509, None, 4, "faster")


def of(data: StudyView, finding: Finding | None = None, **changes: object) -> Result:
    return replace(data.result, **{"finding": finding, **changes})  # type: ignore[arg-type]


def swapped() -> Result:
    result = study().result
    return replace(result, candidate=result.baseline, baseline=result.candidate)


def equal() -> Result:
    result = study({BASELINE: 3.0, setting(omp_threads=2): 3.004}).result
    (other,) = study({setting(omp_threads=2): 3.004}).measurements
    return replace(result, candidate=other)


def fixed() -> Result:
    spec = replace(SPEC, fixed=setting(communicator="naive"))
    made = [launch for launch in searched(3.0) if launch[1] != samples.BROKEN]
    return launched([*made, *samples.in_turn(3.0, 4.2, 3)], spec=spec).result


def failing_again(*, defaults: bool) -> Result:
    again = BASELINE if defaults else samples.FAST
    return launched([*searched(), *[(Purpose.CONFIRM, again, None)] * 2]).result


@pytest.mark.parametrize(
    ("result", "text"),
    [
        # before the confirmation, or without one: medians, and no ratio of what was stopped
        (swapped(), "2.31 times slower than your defaults"),
        (equal(), "as fast as your defaults (3.00 s against 3.00 s"),
        (study({BASELINE: 3.0}).result, "3.00 s; no other setting was tried"),
        (
            launched(searched(stopped(10.8, 30.0))).result,
            "3.60 s; your defaults were stopped after 10.8 s (projected 30.0 s); not confirmed",
        ),
        # not proven: the defaults are kept
        (
            of(samples.no_gain(), Finding(0.912, 0.874, 0.951, 6, "slower")),
            "nothing is faster: keep your defaults"
            " (0.91 times as fast, 95 % interval 0.87 to 0.95, 6 pairs in turn)",
        ),
        (
            of(samples.inconclusive(), Finding(1.9, 0.989, None, 10, "inconclusive")),
            "inconclusive: keep your defaults (at least 0.98 times as fast, 95 % sure, 10 pairs in"
            " turn; it is too small to be told beside the noise of these runs)",
        ),
        (
            of(samples.inconclusive(), Finding(6.2, 0.001, None, 1, "inconclusive", 5)),
            "inconclusive: keep your defaults (6.20 times as fast, too few runs that agree for an"
            " interval, 1 pair in turn; about 5 more pairs",
        ),
        (
            failing_again(defaults=False),
            "no gain worth having: keep your defaults;"
            " the best setting failed when it was launched again",
        ),
        # what is fixed the defaults leave out: they cannot be kept
        (fixed(), "nothing is faster than your defaults (0.72 times as fast, 95 % interval"),
        (failing_again(defaults=True), "your defaults failed when they were launched again: "),
    ],
)
def test_a_comparison_claims_no_more_than_was_proven(result: Result, text: str) -> None:
    claim = claims.comparison(result)
    assert claim == text if text.endswith(")") else claim.startswith(text)


@pytest.mark.parametrize(("low", "text"), [(9.999, "9.99"), (25.99, "25.9"), (262.9, "262")])
def test_a_bound_is_never_rounded_up(low: float, text: str) -> None:
    assert claims.rounded_down(low) == text


@pytest.mark.parametrize(
    ("low", "high", "was_launched", "text"),
    [
        (0.97, 1.04, True, "no effect seen (0.97 to 1.04)"),
        (0.7, 1.6, True, "not clear (0.70 to 1.60)"),
        (0.7, 1.6, False, "not known: no launch left out only this knob"),
        (1.2, 1.6, True, "1.10 times (1.20 to 1.60)"),
        (1.2, 1.6, False, "1.10 times (1.20 to 1.60), by the model"),
        (1.2, None, True, "at least 1.20 times"),
    ],
)
def test_a_contribution_has_no_effect_only_if_its_interval_is_narrow(
    low: float, high: float | None, was_launched: bool, text: str
) -> None:
    contribution = Contribution("omp_threads", 1, 1.1, low, high, was_launched)
    assert claims.contribution(contribution, 0.02) == text


@pytest.mark.parametrize(
    ("conclusion", "finding", "ratio", "text"),
    [
        (None, None, None, ""),
        (None, None, 2.314, "2.31x?"),
        (Conclusion.FASTER, TWO_SIDED, 2.5, "2.31x (2.24 to 2.39)"),
        (Conclusion.FASTER, AT_LEAST, None, ">= 2.50x"),
        (Conclusion.NO_GAIN, TWO_SIDED, 0.9, "no gain"),
        (Conclusion.INCONCLUSIVE, TWO_SIDED, 0.9, "inconclusive"),
        (Conclusion.BASELINE_FAILS, TWO_SIDED, None, "defaults fail"),
    ],
)
def test_a_gain_in_a_table(
    conclusion: Conclusion | None, finding: Finding | None, ratio: float | None, text: str
) -> None:
    assert claims.gain(conclusion, finding, ratio) == text


def test_what_an_epoch_saves_says_when_a_study_has_paid() -> None:
    """Snapshots say it by the run, and where nothing faster is proven."""
    sample = Finished(10.0, 100, epochs=2.0)
    result = replace(
        study().result,
        candidate=Measurement(setting(omp_threads=2), (sample,), 10.0, 1),
        conclusion=Conclusion.FASTER,
        finding=Finding(1.5, 1.4, 1.6, 6, "faster"),
        search_s=300.0,
        confirm_s=100.0,
    )
    said = "an epoch saves 2.50 s: break-even after 160 epochs"
    assert claims.break_even(result) == f"the tuning took 6 min 40 s; {said}"
