"""When a study has paid: only where something faster is proven."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import study
from tuner.model import Claim, Conclusion, Finding, Finished, Measurement, Result, Setting
from tuner.results.claims import BreakEven, break_even

BEST = Setting.of({"omp_threads": 2})


def result(
    best_s: float = 10.0,
    *,
    ratio: float = 1.5,
    low: float = 1.4,
    high: float | None = 1.6,
    epochs: float | None = None,
    search_s: float = 300.0,
    confirm_s: float = 100.0,
) -> Result:
    """A study that found something faster."""
    sample = Finished(best_s, 100, epochs)
    claim: Claim = "faster"
    return replace(
        study().result,
        candidate=Measurement(BEST, (sample,), best_s, 1),
        conclusion=Conclusion.FASTER,
        finding=Finding(ratio, low, high, 6, claim),
        search_s=search_s,
        confirm_s=confirm_s,
    )


def test_a_run_saves_what_the_reference_takes_longer() -> None:
    assert break_even(result()) == BreakEven(400.0, 5.0, "run", 80, at_least=False)


def test_where_the_log_tells_of_epochs_they_are_counted() -> None:
    assert break_even(result(epochs=2.0)) == BreakEven(400.0, 2.5, "epoch", 160, at_least=False)
    assert break_even(result(epochs=0.5)) == BreakEven(400.0, 10.0, "epoch", 40, at_least=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"conclusion": None},
        {"conclusion": Conclusion.NO_GAIN},
        {"conclusion": Conclusion.BASELINE_FAILS},
        {"finding": None},
        {"candidate": None},
        {"candidate": Measurement(BEST, (), None, 1)},
    ],
)
def test_what_is_not_proven_to_be_faster_never_pays(changes: dict[str, object]) -> None:
    assert break_even(replace(result(), **changes)) is None  # type: ignore[arg-type]


seconds = st.floats(0.01, 1e5)


@given(
    seconds,
    st.floats(1.01, 50),
    st.floats(1, 2),
    st.booleans(),
    st.one_of(st.none(), st.floats(0.01, 500)),
    seconds,
    seconds,
)
def test_so_many_pay_and_one_less_does_not(
    best_s: float,
    low: float,
    above: float,
    at_least: bool,
    epochs: float | None,
    search_s: float,
    confirm_s: float,
) -> None:
    found = break_even(
        result(
            best_s,
            ratio=low * above,
            low=low,
            high=None if at_least else low * above * above,
            epochs=epochs,
            search_s=search_s,
            confirm_s=confirm_s,
        )
    )
    assert found is not None
    assert found.at_least == at_least
    assert found.cost_s == search_s + confirm_s
    assert (found.units - 1) * found.saved_s < found.cost_s * (1 + 1e-9)
    assert found.units * found.saved_s >= found.cost_s * (1 - 1e-9)
    whole_s = found.saved_s * (epochs or 1)
    assert math.isclose(whole_s, best_s * ((low if at_least else low * above) - 1))
