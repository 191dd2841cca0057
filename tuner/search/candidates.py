"""Which settings are looked at before a launch, and which lie next to the incumbent."""

from __future__ import annotations

import numpy as np

from tuner.search.arrays import Flags, Rows
from tuner.search.history import Groups
from tuner.search.kernel import Kernel
from tuner.search.space import Grid

#: In a space that is too large to be looked at whole: random rows, how many of them are kept
#: by the prior mean, the known best whose surroundings are added, and random steps about each.
_RANDOM, _KEPT, _CENTRES, _WALKS = 1500, 700, 4, 200


def candidates(kernel: Kernel, groups: Groups, rng: np.random.Generator) -> Rows:
    """All rows of a small space; of a large one some, with what is known and its surroundings."""
    grid = kernel.grid
    if grid.all is not None:
        return grid.all
    canonical = grid.existence.canonical
    drawn = canonical((rng.random((_RANDOM, len(grid.sizes))) * grid.sizes).astype(np.int64))
    parts = [drawn[np.argsort(kernel.mean(grid.demand(drawn)))[:_KEPT]]]
    known = [(e[0], g.key) for g in groups.values() if (e := g.estimate(0.05)) is not None]
    for _, key in sorted(known, key=lambda each: each[0])[:_CENTRES]:
        parts += _surroundings(grid, grid.row(key), rng)
    if groups:
        parts.append(grid.rows(list(groups)))
    return np.asarray(np.unique(canonical(np.concatenate(parts)), axis=0))


def _surroundings(grid: Grid, centre: Rows, rng: np.random.Generator) -> list[Rows]:
    """One knob moved, each way; and two of them at random."""
    one = np.array([
        [*centre[:j], value, *centre[j + 1 :]]
        for j, size in enumerate(grid.sizes)
        for value in _nearby(int(size), int(centre[j]))
    ])  # fmt: skip
    if not len(one):
        return []
    two = one[rng.integers(len(one), size=_WALKS)].copy()
    for row in two:
        j = int(rng.integers(len(grid.sizes)))
        if grid.sizes[j] > 1:
            row[j] = rng.choice(_nearby(int(grid.sizes[j]), int(row[j])))
    return [one, two]


def _nearby(size: int, index: int) -> list[int]:
    """Values one, two and four steps away, and the ends; all of a short list."""
    steps = {value for step in (1, 2, 4) for value in (index - step, index + step)}
    ends = {0, size - 1} if size > 4 else set(range(size))
    return sorted((steps | ends) & set(range(size)))


def beside(grid: Grid, rows: Rows, centre: Rows) -> Flags:
    """Which rows lie one step of one knob away."""
    # What ceases to exist with the step did not move; what comes to exist starts at its first.
    moved = (rows != centre[None]) & grid.existence.of(rows)
    near = moved.sum(1) == 1
    for j, knob in enumerate(grid.space.knobs):
        if knob.ordered:
            away = np.abs(grid.places[j][rows[:, j]] - grid.places[j][centre[j]])
            near &= (away <= 1) | ~moved[:, j]
    return np.asarray(near)
