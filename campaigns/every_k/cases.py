"""The faults: of each kind the first, the second … the last one that a study does."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping
from dataclasses import dataclass

#: What the shim counts; the order is its own.
KINDS = ("commit", "fsync", "rename", "write", "lock")

#: Kind, error (0: the process is killed before it), and whether it lasts.
FAMILIES = (
    *((kind, 0, False) for kind in ("commit", "fsync", "rename")),
    *(("write", error, lasts) for error in (errno.ENOSPC, errno.EIO) for lasts in (False, True)),
    *(("lock", errno.EAGAIN, lasts) for lasts in (False, True)),
)


@dataclass(frozen=True)
class Fault:
    """Of ``kind`` the ``at``-th fails with ``error`` (0: the process is killed before it)."""

    kind: str
    error: int
    lasts: bool
    at: int

    def __str__(self) -> str:
        what = errno.errorcode[self.error] if self.error else "kill"
        return f"{what} at {self.kind}{', for ever' if self.lasts else ''}"


#: One fault, or one and another during the recovery.
Case = tuple[Fault, ...]


def family(case: Case) -> str:
    """What the table calls it: what it has in common with those at other places."""
    return str(case[0]) if len(case) == 1 else "a second fault in recovery"


def every(counts: Mapping[str, int], seed: int) -> list[Case]:
    """All cases of a study that does each kind so often, and some pairs of faults."""
    single = [(Fault(*each, at),) for each in FAMILIES for at in range(1, counts[each[0]] + 1)]
    rng = random.Random(seed)

    def any_fault() -> Fault:
        """Early ones more often: a recovery has less to do."""
        chosen = rng.choice(FAMILIES)
        return Fault(*chosen, 1 + int(counts[chosen[0]] * rng.random() ** 2))

    pairs = [(any_fault(), any_fault()) for _ in range(round(len(single) / len(FAMILIES)))]
    return [*single, *pairs]


def sample(cases: list[Case], share: float, seed: int, least: int = 1) -> list[Case]:
    """A share of the cases, of each family at least so many."""
    rng = random.Random(seed)
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(family(case), []).append(case)
    chosen: list[Case] = []
    for members in families.values():
        number = max(least, round(share * len(members)))
        chosen += rng.sample(members, min(number, len(members)))
    return chosen
