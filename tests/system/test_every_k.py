"""A seeded sample of the faults at every k; ``make campaigns`` runs them all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from campaigns.every_k.bench import Bench, compiler, started
from campaigns.every_k.campaign import clean, verdicts
from campaigns.every_k.cases import FAMILIES, Case, Fault, every, sample

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


def test_every_place_is_a_case_of_each_family() -> None:
    cases = every(COUNTS, 1)
    single = {case.faults[0] for case in cases if len(case.faults) == 1}
    assert len(single) == 5 + 9 + 3 + 4 * 40 + 2 * 20
    assert {Fault("commit", at, 0) for at in range(1, 6)} <= single
    assert every(COUNTS, 1) == cases != every(COUNTS, 2)


def test_a_sample_has_each_family_and_is_told_by_its_seed() -> None:
    cases = every(COUNTS, 1)
    few = sample(cases, 0.01, 1)
    assert {case.family for case in few} == {case.family for case in cases}
    assert sample(cases, 0.01, 1) == few != sample(cases, 0.01, 2)
    assert sorted(sample(cases, 1.0, 1), key=str) == sorted(cases, key=str)
    assert str(Case((Fault("write", 3, 28, True), Fault("fsync", 1, 0)))) == (
        "ENOSPC at write, for ever, 3 then kill at fsync, 1"
    )
