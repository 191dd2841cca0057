"""Which faults there are, and a seeded sample of them."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Of ``kind`` the ``at``-th fails with ``error`` (0: the process is killed before it)."""

    kind: str
    at: int
    error: int
    lasts: bool = False

    @property
    def family(self) -> str:
        """What it has in common with those at other places."""
        what = errno.errorcode[self.error] if self.error else "kill"
        return f"{what} at {self.kind}{', for ever' if self.lasts else ''}"

    def __str__(self) -> str:
        return f"{self.family}, {self.at}"


@dataclass(frozen=True)
class Case:
    """One fault, or one and another during the recovery."""

    faults: tuple[Fault, ...]

    @property
    def family(self) -> str:
        """What the table calls it."""
        return self.faults[0].family if len(self.faults) == 1 else "a second fault in recovery"

    def __str__(self) -> str:
        return " then ".join(map(str, self.faults))


#: Kind, error, and whether it lasts.
FAMILIES = (
    *((kind, 0, False) for kind in ("commit", "fsync", "rename")),
    *(("write", error, lasts) for error in (errno.ENOSPC, errno.EIO) for lasts in (False, True)),
    *(("lock", errno.EAGAIN, lasts) for lasts in (False, True)),
)

#: So many pairs of faults, as a multiple of the mean size of a family.
PAIRS = 1.0


def every(counts: Mapping[str, int], seed: int) -> list[Case]:
    """All cases of a study that does each kind so often."""
    single = [
        Fault(kind, at, error, lasts)
        for kind, error, lasts in FAMILIES
        for at in range(1, counts[kind] + 1)
    ]
    rng = random.Random(seed)
    number = round(PAIRS * len(single) / len(FAMILIES))
    return [
        *(Case((fault,)) for fault in single),
        *(Case((_any(counts, rng), _any(counts, rng))) for _ in range(number)),
    ]


def _any(counts: Mapping[str, int], rng: random.Random) -> Fault:
    """A fault of any family, early ones more often: a recovery has less to do."""
    kind, error, lasts = rng.choice(FAMILIES)
    return Fault(kind, 1 + int(counts[kind] * rng.random() ** 2), error, lasts)


def sample(cases: list[Case], share: float, seed: int, least: int = 1) -> list[Case]:
    """A share of the cases, of each family at least so many."""
    rng = random.Random(seed)
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(case.family, []).append(case)
    chosen: list[Case] = []
    for members in families.values():
        number = max(least, round(share * len(members)))
        chosen += rng.sample(members, min(number, len(members)))
    return chosen
