"""The campaigns name what they patch as text: a rename must not pass them by."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter

import pytest

from campaigns.phases import LIVE_PHASES, PHASES


@pytest.mark.parametrize(
    ("module", "name"), sorted({r[:2] for r in (PHASES | LIVE_PHASES).values()})
)
def test_what_a_phase_patches_exists(module: str, name: str) -> None:
    assert callable(attrgetter(name)(import_module(module)))
