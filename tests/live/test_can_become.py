"""Which settings a running job can be switched to."""

from __future__ import annotations

import pytest

from tuner.live.fitting import is_reachable
from tuner.model import BASELINE, UNSET, Setting, Value

LIVE = {"omp_threads", "omp_wait_policy"}


def of(threads: int, bind_to: str | None = None, policy: str | None = None) -> Setting:
    values: dict[str, Value] = {"omp_threads": threads}
    values |= {"bind_to": bind_to} if bind_to else {}
    return Setting.of(values | ({"omp_wait_policy": policy} if policy else {}))


@pytest.mark.parametrize(
    ("start", "wanted", "fits"),
    [
        (of(1, "core"), of(2, "core"), True),
        (of(1, "core"), of(1, "none"), False),
        (of(1, "core"), of(1), False),
        (of(1), of(1, "core"), False),
        (of(1), BASELINE, False),
        (BASELINE, BASELINE, True),
        (BASELINE, of(2), True),
        (BASELINE, of(2, "core"), False),
        (of(1, policy="active"), of(1, policy=UNSET), False),
        (of(1, policy=UNSET), of(2, policy=UNSET), True),
    ],
)
def test_what_cannot_be_changed_must_be_as_it_was_started(
    start: Setting, wanted: Setting, fits: bool
) -> None:
    assert is_reachable(start, wanted, LIVE) is fits
