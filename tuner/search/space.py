"""The space as the search sees it: knobs with ordered values, and arrays of value indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuner.knobs import Role, conditions
from tuner.knobs.conditions import Axis, worlds
from tuner.knobs.core_budget import UNASKED, asked_per_rank
from tuner.model import Value, When

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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


#: One value a knob, in the space's order.
Key = tuple[Value, ...]

#: Spaces up to this size are looked at whole, larger ones in part.
ENUMERATED = 4000


@dataclass(frozen=True)
class KnobAxis:
    """A knob: its values, what it costs in cores, its default where that is known."""

    name: str
    values: tuple[Value, ...]
    role: Role | None = None
    default: Value | None = None
    when: When = ()

    @property
    def ordered(self) -> bool:
        """True where the values are numbers of which there are two or more."""
        return len(self.values) > 1 and all(isinstance(v, int) for v in self.values)

    @property
    def octaves(self) -> Floats | None:
        """The coordinate of each value on a scale of doublings; ``None`` where unordered.

        Half or twice as many is what counts; 0 lies one doubling below 1.
        """
        if not self.ordered:
            return None
        numbers = np.array(self.values, float)
        if numbers.min() < 0:
            span = max(1.0, float(np.ptp(numbers)))
            return np.asarray((numbers - numbers.min()) / span * 4)
        return np.where(numbers < 1, -1.0, np.log2(np.maximum(numbers, 1)))

    @property
    def places(self) -> Rows:
        """The place of each value in ascending order."""
        if not self.ordered:
            return np.arange(len(self.values))
        return np.argsort(np.argsort(np.array(self.values, float)))


@dataclass(frozen=True)
class Space:
    """The knobs and the host.

    ``baseline`` is the point that the defaults come to, where that is known; ``guesses`` are
    the machine's, the more likely first; nothing is tried that asks for more than
    ``most_demand`` times the cores.
    """

    knobs: tuple[KnobAxis, ...]
    ranks_per_host: int
    cores: int
    baseline: Key | None = None
    guesses: tuple[Key, ...] = ()
    most_demand: float | None = None

    @cached_property
    def size(self) -> int:
        """How many points it has."""
        return conditions.size(self.knobs)


class Grid:
    """The space as arrays: a row holds one value index a knob, 0 where it does not exist."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.sizes = np.array([len(knob.values) for knob in space.knobs])
        self.octaves = [knob.octaves for knob in space.knobs]
        self.places = [knob.places for knob in space.knobs]
        self.has_roles = any(knob.role for knob in space.knobs)
        self._index = [{v: i for i, v in enumerate(knob.values)} for knob in space.knobs]
        self._numbers = [
            np.array([v if isinstance(v, int) else 1 for v in knob.values], float)
            for knob in space.knobs
        ]
        self.existence = Existence(space.knobs)
        self.all: Rows | None = None
        if space.size <= ENUMERATED:
            self.all = np.array(list(self._every()), np.int64)

    def _every(self) -> Iterator[tuple[int, ...]]:
        for world in worlds(self.space.knobs):
            yield from itertools.product(
                *(
                    [index[value] for value in world[knob.name]] if knob.name in world else (0,)
                    for knob, index in zip(self.space.knobs, self._index, strict=True)
                )
            )

    def row(self, key: Key) -> Rows:
        """The value indices of a setting."""
        pairs = zip(self._index, key, strict=True)
        return np.array([index[value] for index, value in pairs], np.int64)

    def rows(self, keys: Sequence[Key]) -> Rows:
        """The value indices of settings."""
        return np.array([self.row(key) for key in keys], np.int64).reshape(-1, len(self.sizes))

    def key(self, row: Rows) -> Key:
        """The setting of a row."""
        return tuple(knob.values[i] for knob, i in zip(self.space.knobs, row, strict=True))

    def demand(self, rows: Rows) -> Floats:
        """How full the cores are, in octaves: 0 is just full, 1 twice what there is.

        Asked for are ranks x (threads + workers x worker threads) on each host; without a
        knob that counts cores all points are alike.
        """
        if not self.has_roles:
            return np.zeros(len(rows))
        asked = {role: np.full(len(rows), float(number)) for role, number in UNASKED.items()}
        for j, knob in enumerate(self.space.knobs):
            if knob.role:
                numbers = self._numbers[j][rows[:, j]]
                asked[knob.role] = np.maximum(numbers, 0 if knob.role == "workers" else 1)
                if knob.when:
                    there = self.existence.of(rows)[:, j]
                    asked[knob.role][~there] = UNASKED[knob.role]
        per_rank = asked_per_rank(**asked)
        asked_for = np.maximum(self.space.ranks_per_host * per_rank, 1)
        return np.asarray(np.log2(asked_for / self.space.cores))

    def beyond(
        self, rows: Rows, row: Rows, rising: Sequence[bool], *, below: bool = False
    ) -> Flags:
        """True for rows with at least as much of each rising knob as ``row``, all else equal.

        Args:
            rows: The rows to judge.
            row: What they are compared with.
            rising: Which knobs may exceed it.
            below: At most as much instead.
        """
        out = np.ones(len(rows), bool)
        if self.existence:
            out = (self.existence.of(rows) == self.existence.of(row[None])).all(1)
        for j, free in enumerate(rising):
            if free:
                gap = self.places[j][rows[:, j]] - self.places[j][row[j]]
                out &= (gap <= 0) if below else (gap >= 0)
            else:
                out &= rows[:, j] == row[j]
        return out

    def steps(self, j: int, rows: Rows, row: Rows) -> Floats:
        """How far the rows' values of knob ``j`` lie from the row's.

        In octaves; 1 where alternatives differ, or where the knob exists in one of them only.
        """
        octaves, column, i = self.octaves[j], rows[:, j], row[j]
        if octaves is None:
            away = np.asarray(column != i, float)
        else:
            away = np.asarray(np.abs(octaves[column] - octaves[i]))
        if self.space.knobs[j].when:
            unlike = self.existence.of(rows)[:, j] != self.existence.of(row[None])[0, j]
            away = np.where(unlike, 1.0, away)
        return away
