"""A few of the hostile exports; the large round is ``python -m campaigns.exports_inert``."""

from __future__ import annotations

import pytest

from campaigns import exports_inert

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("seed", [11, 12])
def test_hostile_exports_have_no_effect_beyond_their_own(seed: int) -> None:
    made, ran = exports_inert.main(50, seed)
    assert made == 50
    assert ran > 50 * len(exports_inert.SHELLS)
