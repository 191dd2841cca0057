"""``tune profile``: what is compared with the defaults, and what it is called."""

from __future__ import annotations

import pytest

from tests import study_samples as samples
from tests.study_samples import study
from tuner.cli.profile import compared
from tuner.model import BASELINE
from tuner.model.errors import UsageError


def test_the_best_or_else_the_next_is_compared_with_the_defaults() -> None:
    data = samples.faster()
    assert compared(data) == {"baseline": BASELINE, "best": data.best_setting}
    found = compared(samples.no_gain())
    assert list(found) == ["baseline", "other"]
    assert not found["other"].is_baseline


@pytest.mark.parametrize(
    ("elapsed_s", "message"),
    [(1.0, "has measured no setting but the baseline"), (None, "mnist has measured no setting$")],
)
def test_nothing_to_compare_is_an_error(elapsed_s: float | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compared(study({BASELINE: elapsed_s}))
