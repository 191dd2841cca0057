"""A seeded sample of the faults at every k; ``make campaigns`` runs them all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from campaigns.every_k.bench import Bench, compiler, started
from campaigns.every_k.campaign import clean, verdicts
from campaigns.every_k.cases import FAMILIES, every, sample

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Another part of the cases each time this is raised.
SEED = 4

COUNTS = {"commit": 5, "fsync": 9, "rename": 3, "write": 40, "lock": 20}


@pytest.fixture(scope="module")
def bench(require_program: Callable[[str], str]) -> Iterator[Bench]:
    if compiler() is None:
        require_program("gcc")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="every-k-", dir=memory) as folder,
        started(Path(folder)) as found,
    ):
        yield found


def test_a_fault_at_any_place_loses_nothing(bench: Bench) -> None:
    whole = clean(bench)
    assert all(whole.counts.values()), "each kind is seen"
    cases = sample(every(whole.counts, SEED), 0.0, SEED, least=2)
    found = list(verdicts(bench, cases, whole))
    assert len(found) == 2 * (len(FAMILIES) + 1)
    assert any(verdict.struck for verdict in found)
    bad = [f"{verdict.case}: {'; '.join(verdict.wrong)}" for verdict in found if verdict.wrong]
    assert not bad, "\n".join(bad)
