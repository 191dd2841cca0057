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


def drawn(counts: Mapping[str, int], seed: int, share: float, least: int) -> list[Case]:
    """Cases of a study that does each kind so often: of each family a share, at least so many."""
    rng = random.Random(seed)

    def any_fault() -> Fault:
        """Early ones more often: a recovery has less to do."""
        chosen = rng.choice(FAMILIES)
        return Fault(*chosen, 1 + int(counts[chosen[0]] * rng.random() ** 2))

    families: list[list[Case]] = [
        [(Fault(*each, at),) for at in range(1, counts[each[0]] + 1)] for each in FAMILIES
    ]
    pairs = round(sum(map(len, families)) / len(FAMILIES))
    families.append([(any_fault(), any_fault()) for _ in range(pairs)])
    numbers = (min(max(least, round(share * len(each))), len(each)) for each in families)
    return [case for each, number in zip(families, numbers, strict=True)
            for case in rng.sample(each, number)]  # fmt: skip
