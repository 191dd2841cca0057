"""Which knobs exist in a row, where some exist only for certain values of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.knobs.conditions import Axis
from tuner.search.arrays import Flags, Rows


class Existence:
    """The conditions of a space as arrays: the rule of :func:`tuner.knobs.conditions.active`."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        place = {axis.name: j for j, axis in enumerate(axes)}
        self._columns = len(axes)
        #: (knob, the one it depends on, for which of whose values it exists)
        self._rules = [
            (
                j,
                place[parent],
                np.isin(
                    np.arange(len(axes[place[parent]].values)),
                    [i for i, value in enumerate(axes[place[parent]].values) if value in values],
                ),
            )
            for j, axis in enumerate(axes)
            for parent, values in axis.when
            if parent in place
        ]
        self._sizes = [len(axis.values) for axis in axes]

    def __bool__(self) -> bool:
        """True where there is a condition at all."""
        return bool(self._rules)

    def of(self, rows: Rows) -> Flags:
        """Which knobs exist: (rows, knobs)."""
        there = np.ones((len(rows), self._columns), bool)
        changed = bool(self._rules)
        while changed:
            before = there.copy()
            for j, parent, holds in self._rules:
                there[:, j] &= there[:, parent] & holds[rows[:, parent]]
            changed = bool((there != before).any())
        return there

    def canonical(self, rows: Rows) -> Rows:
        """The rows with index 0 for each knob that does not exist."""
        return np.where(self.of(rows), rows, 0) if self._rules else rows

    def levels(self, rows: Rows) -> Rows:
        """The rows with one index more, behind those of the values, for "does not exist"."""
        return np.where(self.of(rows), rows, self._sizes) if self._rules else rows
