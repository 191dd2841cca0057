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

from tuner.knobs import conditions
from tuner.knobs.conditions import KnobAxis, worlds
from tuner.knobs.core_budget import core_demand, default_numbers
from tuner.knobs.requirements import NONE, Requirements
from tuner.model import Value

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: One value a knob, in the space's order.
Key = tuple[Value, ...]

#: Stands in a key for a knob that is left out: the program uses a default of its own.
LEFT_OUT = ""

#: Of spaces up to this size all settings are candidates, of larger ones some.
ENUMERATED = 4000


@dataclass(frozen=True)
class Space:
    """The knobs and the host.

    ``baseline`` is the setting that the defaults come to, if that is known; ``guesses`` are
    settings that suit the machine, the most likely first. No setting is tried that asks for more
    than ``most_demand`` times the cores, or does not meet the ``requirements``.
    """

    knobs: tuple[KnobAxis, ...]
    ranks_per_host: int
    cores: int
    baseline: Key | None = None
    guesses: tuple[Key, ...] = ()
    most_demand: float | None = None
    requirements: Requirements = NONE


def _octaves(knob: KnobAxis) -> Floats | None:
    """Return the coordinate of each value on a scale of doublings; ``None`` without an order.

    0 lies one doubling below 1. Values of which some are negative lie evenly on four octaves.
    """
    if not knob.ordered:
        return None
    numbers = np.array(knob.values, float)
    if numbers.min() < 0:
        return np.asarray((numbers - numbers.min()) / np.ptp(numbers) * 4)
    return np.where(numbers < 1, -1.0, np.log2(np.maximum(numbers, 1)))


class Points(NamedTuple):
    """Rows as the kernel needs them."""

    levels: Rows  # value indices, with one index more for "does not exist"
    demand: Floats  # of cores, in octaves


class Grid:
    """The space as arrays: a row holds one value index a knob, 0 where it does not exist.

    The index of `LEFT_OUT` follows those of the values.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.sizes = np.array([len(knob.values) for knob in space.knobs])
        self.octaves = [_octaves(knob) for knob in space.knobs]
        #: The place of each value in ascending order, if there is one.
        self.places = [
            np.argsort(np.argsort(np.array(knob.values, float)))
            if knob.ordered
            else np.arange(len(knob.values))
            for knob in space.knobs
        ]
        self.has_roles = any(knob.role for knob in space.knobs)
        levels = [(*k.values, LEFT_OUT) if k.optional else k.values for k in space.knobs]
        self._index = [{v: i for i, v in enumerate(values)} for values in levels]
        self._numbers = [
            np.array([v if isinstance(v, int) else 1 for v in values], float) for values in levels
        ]
        place = {knob.name: j for j, knob in enumerate(space.knobs)}
        #: A knob, the one that it depends on, and with which values of that it exists.
        self._conditions = [
            (j, place[parent], np.array([v in values for v in space.knobs[place[parent]].values]))
            for j, knob in enumerate(space.knobs)
            for parent, values in knob.when
            if parent in place
        ]
        self.all: Rows | None = None
        if conditions.size(space.knobs, space.requirements) <= ENUMERATED:
            rows = (row for product in self._products() for row in itertools.product(*product))
            self.all = np.array(list(rows), np.int64)

    def _products(self) -> Iterator[list[list[int]]]:
        """Yield the products that make up the space: for each knob the indices of its values."""
        for world in worlds(self.space.knobs, self.space.requirements):
            yield [
                [index[value] for value in world[knob.name]] if knob.name in world else [0]
                for knob, index in zip(self.space.knobs, self._index, strict=True)
            ]

    @cached_property
    def _product_shares(self) -> tuple[list[list[list[int]]], Floats]:
        """The products that make up the space, and the share of it that each is."""
        products = list(self._products())
        sizes = np.array([math.prod(map(len, product)) for product in products], float)
        return products, sizes / sizes.sum()

    def draw(self, rng: np.random.Generator, number: int) -> Rows:
        """Return rows at random."""
        if not self.space.requirements.texts:
            uniform = rng.random((number, len(self.sizes)))
            return self.canonical((uniform * self.sizes).astype(np.int64))
        products, shares = self._product_shares
        parts = [
            np.stack([rng.choice(indices, count) for indices in product], axis=1)
            for product, count in zip(products, rng.multinomial(number, shares), strict=True)
            if count
        ]
        return np.concatenate(parts)

    def allowed(self, rows: Rows) -> Flags:
        """Return which rows meet the requirements."""
        requirements = self.space.requirements
        if not requirements.texts:
            return np.ones(len(rows), bool)
        columns = [
            (j, knob) for j, knob in enumerate(self.space.knobs) if knob.name in requirements.names
        ]
        chosen = (
            {knob.name: knob.values[row[j]] for j, knob in columns if exists[j]}
            for row, exists in zip(rows.tolist(), self.exist(rows), strict=True)
        )
        return np.fromiter(map(requirements.meets, chosen), bool, len(rows))

    def exist(self, rows: Rows) -> Flags:
        """Return which knobs exist (:func:`tuner.knobs.conditions.active`): (rows, knobs)."""
        exists = np.ones(rows.shape, bool)
        for _ in self._conditions:  # again and again, as the parent may depend on another knob
            for j, parent, values in self._conditions:
                exists[:, j] &= exists[:, parent] & values[rows[:, parent]]
        return exists

    def canonical(self, rows: Rows) -> Rows:
        """Return the rows with index 0 for each knob that does not exist."""
        return np.where(self.exist(rows), rows, 0) if self._conditions else rows

    def points(self, rows: Rows) -> Points:
        """Return the rows as the kernel needs them."""
        levels = np.where(self.exist(rows), rows, self.sizes) if self._conditions else rows
        return Points(levels, self.demand(rows))

    def row(self, key: Key) -> Rows:
        """Return the value indices of a setting."""
        pairs = zip(self._index, key, strict=True)
        return np.array([index[value] for index, value in pairs], np.int64)

    def rows(self, keys: Sequence[Key]) -> Rows:
        """Return the value indices of settings."""
        return np.array([self.row(key) for key in keys], np.int64).reshape(-1, len(self.sizes))

    def key(self, row: Rows) -> Key:
        """Return the setting of a row."""
        return tuple(knob.values[i] for knob, i in zip(self.space.knobs, row, strict=True))

    def demand(self, rows: Rows) -> Floats:
        """Return how full the cores are, in octaves: 0 is just full, 1 twice what there is.

        Without a knob that counts cores it is 0 everywhere.
        """
        if not self.has_roles:
            return np.zeros(len(rows))
        numbers_by_default = default_numbers(self.space.ranks_per_host)
        counts = {role: np.full(len(rows), float(n)) for role, n in numbers_by_default.items()}
        exists = self.exist(rows)
        for j, knob in enumerate(self.space.knobs):
            if knob.role:
                least = 0 if knob.role == "workers" else 1
                numbers = np.maximum(self._numbers[j][rows[:, j]], least)
                counts[knob.role] = np.where(exists[:, j], numbers, numbers_by_default[knob.role])
        return np.asarray(np.log2(np.maximum(core_demand(**counts), 1) / self.space.cores))

    def beyond(
        self, rows: Rows, row: Rows, rising: Sequence[bool], *, below: bool = False
    ) -> Flags:
        """Return which rows have at least as much of each rising knob as ``row``, all else equal.

        ``below`` asks for at most as much instead.
        """
        is_beyond = np.ones(len(rows), bool)
        if self._conditions:
            is_beyond = (self.exist(rows) == self.exist(row[None])).all(1)
        for j, is_rising in enumerate(rising):
            gap = self.places[j][rows[:, j]] - self.places[j][row[j]]
            is_beyond &= gap == 0 if not is_rising else gap <= 0 if below else gap >= 0
        return is_beyond

    def steps(self, j: int, rows: Rows, row: Rows) -> Floats:
        """Return how far the rows' values of knob ``j`` lie from the row's, in octaves.

        It is 1 where alternatives differ, or where the knob exists in one of them only.
        """
        octaves, column, i = self.octaves[j], rows[:, j], row[j]
        if octaves is None:
            distance = np.asarray(column != i, float)
        else:
            distance = np.asarray(np.abs(octaves[column] - octaves[i]))
        if self.space.knobs[j].when:
            in_one_only = self.exist(rows)[:, j] != self.exist(row[None])[0, j]
            distance = np.where(in_one_only, 1.0, distance)
        return distance
