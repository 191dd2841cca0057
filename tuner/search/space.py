"""The space as the search sees it: knobs with ordered values, and arrays of value indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tuner.knobs import Role, conditions
from tuner.knobs.conditions import worlds
from tuner.knobs.core_budget import UNASKED, asked_per_rank
from tuner.knobs.requirements import NONE, Requirements
from tuner.model import Value, When

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


#: One value a knob, in the space's order.
Key = tuple[Value, ...]

#: Stands in a key for a knob that is left out: the program goes by a default that nobody told.
LEFT_OUT = ""

#: Spaces up to this size are looked at whole, larger ones in part.
ENUMERATED = 4000


@dataclass(frozen=True)
class KnobAxis:
    """A knob: its values, what it costs in cores, its default where that is known.

    ``optional``: a setting may leave it out (:data:`LEFT_OUT`).
    """

    name: str
    values: tuple[Value, ...]
    role: Role | None = None
    default: Value | None = None
    when: When = ()
    optional: bool = False

    @property
    def may_lack(self) -> bool:
        """True if some settings have no value of it."""
        return self.optional or bool(self.when)

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
    ``most_demand`` times the cores, or does not meet the ``requirements``.
    """

    knobs: tuple[KnobAxis, ...]
    ranks_per_host: int
    cores: int
    baseline: Key | None = None
    guesses: tuple[Key, ...] = ()
    most_demand: float | None = None
    requirements: Requirements = NONE


class Points(NamedTuple):
    """Rows as the kernel sees them, those of an earlier study (`tuner.search.transfer`) too."""

    levels: Rows  # value indices, with one index more for "does not exist"
    demand: Floats  # octaves
    earlier: Flags

    def joined(self, other: Points) -> Points:
        """These, then the others."""
        return Points(
            np.concatenate([self.levels, other.levels]),
            np.concatenate([self.demand, other.demand]),
            np.concatenate([self.earlier, other.earlier]),
        )


class Grid:
    """The space as arrays: a row holds one value index a knob, 0 where it does not exist.

    The index of what is left out follows those of the values.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.sizes = np.array([len(knob.values) for knob in space.knobs])
        self.octaves = [knob.octaves for knob in space.knobs]
        self.places = [knob.places for knob in space.knobs]
        self.has_roles = any(knob.role for knob in space.knobs)
        listed = [
            (*knob.values, LEFT_OUT) if knob.optional else knob.values for knob in space.knobs
        ]
        self._index = [{v: i for i, v in enumerate(values)} for values in listed]
        self._numbers = [
            np.array([v if isinstance(v, int) else 1 for v in values], float) for values in listed
        ]
        place = {knob.name: j for j, knob in enumerate(space.knobs)}
        #: (knob, the one it depends on, for which of whose values it exists)
        self._conditions = [
            (j, place[parent], np.array([v in values for v in space.knobs[place[parent]].values]))
            for j, knob in enumerate(space.knobs)
            for parent, values in knob.when
            if parent in place
        ]
        self.all: Rows | None = None
        if conditions.size(space.knobs, space.requirements) <= ENUMERATED:
            self.all = np.array(list(self._every()), np.int64)

    def _every(self) -> Iterator[tuple[int, ...]]:
        for world in worlds(self.space.knobs, self.space.requirements):
            yield from itertools.product(
                *(
                    [index[value] for value in world[knob.name]] if knob.name in world else (0,)
                    for knob, index in zip(self.space.knobs, self._index, strict=True)
                )
            )

    @cached_property
    def _worlds(self) -> tuple[Floats, Rows, Rows, Rows]:
        """The products of the space, flat: the share of each, and per world and knob where its
        value indices begin in a list of all, and how many there are.
        """
        shares, starts, counts, listed = [], [], [], list[int]()
        for world in worlds(self.space.knobs, self.space.requirements):
            row = [
                [index[value] for value in world.get(knob.name, knob.values[:1])]
                for knob, index in zip(self.space.knobs, self._index, strict=True)
            ]
            counts.append([len(indices) for indices in row])
            starts.append([len(listed) + sum(counts[-1][:j]) for j in range(len(row))])
            listed += [i for indices in row for i in indices]
            shares.append(float(math.prod(counts[-1])))
        weights = np.array(shares) / sum(shares)
        return weights, np.array(starts), np.array(counts), np.array(listed, np.int64)

    def draw(self, rng: np.random.Generator, number: int) -> Rows:
        """Rows at random."""
        uniform = rng.random((number, len(self.sizes)))
        if not self.space.requirements.texts:
            return self.canonical((uniform * self.sizes).astype(np.int64))
        shares, starts, counts, listed = self._worlds
        picked = rng.choice(len(shares), size=number, p=shares)
        return listed[starts[picked] + (uniform * counts[picked]).astype(np.int64)]

    def allowed(self, rows: Rows) -> Flags:
        """True for rows that meet what is required."""
        requirements = self.space.requirements
        if not requirements.texts:
            return np.ones(len(rows), bool)
        columns = [
            (j, knob) for j, knob in enumerate(self.space.knobs) if knob.name in requirements.names
        ]
        chosen = (
            {knob.name: knob.values[row[j]] for j, knob in columns if there[j]}
            for row, there in zip(rows.tolist(), self.exist(rows), strict=True)
        )
        return np.fromiter(map(requirements.meets, chosen), bool, len(rows))

    def exist(self, rows: Rows) -> Flags:
        """Which knobs exist (:func:`tuner.knobs.conditions.active`): (rows, knobs)."""
        there = np.ones(rows.shape, bool)
        for _ in self._conditions:  # as deep as one may depend on another
            for j, parent, holds in self._conditions:
                there[:, j] &= there[:, parent] & holds[rows[:, parent]]
        return there

    def canonical(self, rows: Rows) -> Rows:
        """The rows with index 0 for each knob that does not exist."""
        return np.where(self.exist(rows), rows, 0) if self._conditions else rows

    def points(self, rows: Rows) -> Points:
        """The rows as the kernel sees them."""
        levels = np.where(self.exist(rows), rows, self.sizes) if self._conditions else rows
        return Points(levels, self.demand(rows), np.zeros(len(rows), bool))

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
        role_counts = {role: np.full(len(rows), float(number)) for role, number in UNASKED.items()}
        for j, knob in enumerate(self.space.knobs):
            if knob.role:
                numbers = self._numbers[j][rows[:, j]]
                role_counts[knob.role] = np.maximum(numbers, 0 if knob.role == "workers" else 1)
                if knob.when:
                    there = self.exist(rows)[:, j]
                    role_counts[knob.role][~there] = UNASKED[knob.role]
        per_rank = asked_per_rank(**role_counts)
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
        if self._conditions:
            out = (self.exist(rows) == self.exist(row[None])).all(1)
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
            unlike = self.exist(rows)[:, j] != self.exist(row[None])[0, j]
            away = np.where(unlike, 1.0, away)
        return away
