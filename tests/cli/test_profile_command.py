"""``tune profile``: what is compared with the defaults, and what it is called."""

from __future__ import annotations

import pytest

from tests import study_samples as samples
from tests.study_samples import study
from tuner.cli.profile import compared
from tuner.model import BASELINE
from tuner.model.errors import UsageError


def test_the_best_is_compared_with_the_defaults() -> None:
    data = samples.faster()
    assert compared(data) == {"baseline": BASELINE, "best": data.best_setting}


def test_where_the_defaults_are_best_the_next_is_no_best() -> None:
    found = compared(samples.no_gain())
    assert list(found) == ["baseline", "other"]
    assert not found["other"].is_baseline


def test_with_nothing_beside_the_defaults_there_is_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="has measured no setting but the baseline"):
        compared(study({BASELINE: 1.0}))


def test_with_failures_alone_nothing_was_measured() -> None:
    with pytest.raises(UsageError) as told:
        compared(study({BASELINE: None}))
    assert told.value.message == "study mnist has measured no setting"
