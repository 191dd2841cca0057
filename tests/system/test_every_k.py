"""A seeded sample of the faults at every k; ``make campaigns`` runs them all."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from campaigns.every_k.campaign import FAMILIES, clean, every, sample, started, verdicts

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Another part of the cases each time this is raised.
SEED = 4


def test_a_fault_at_any_place_loses_nothing(require_program: Callable[[str], str]) -> None:
    if shutil.which("cc") is None:
        require_program("gcc")
    with started() as server:
        whole = clean(server)
        assert all(whole.counts.values()), "each kind is seen"
        cases = sample(every(whole.counts, SEED), 0.0, SEED, least=2)
        found = list(verdicts(server, cases, whole))
    assert len(found) == 2 * (len(FAMILIES) + 1)
    assert any(verdict.struck for verdict in found)
    bad = [f"{verdict.case}: {'; '.join(verdict.wrong)}" for verdict in found if verdict.wrong]
    assert not bad, "\n".join(bad)
