"""What is lost by leaving knobs out of a setting: a model in which that is one more level of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tuner.search.estimate import fit
from tuner.search.gaussian import Gaussian
from tuner.search.history import Groups, SearchObservation, grouped
from tuner.search.kernel import Kernel
from tuner.search.options import Options
from tuner.search.space import Floats, Grid, Key, Space

#: Joint draws of the model.
_DRAWS = 1000


class LeftOutModel:
    """The model of the search, of settings that leave knobs out as well.

    Args:
        space: Its knobs say if they are optional; none depends on another.
        history: The launches, the baseline among them.
        seed: Of the draws.
    """

    def __init__(self, space: Space, history: Sequence[SearchObservation], seed: int) -> None:
        self.groups: Groups = grouped(history)
        self._space, self._history, self._seed = space, history, seed

    @cached_property
    def _grid(self) -> Grid:
        return Grid(self._space)

    @cached_property
    def _fitted(self) -> Gaussian | None:
        options = Options()
        prior = options.prior
        if any(seen.in_job for seen in self._history):
            prior = replace(prior, noise=(prior.noise[0], options.window_noise))
        return fit(Kernel(self._grid, prior), self.groups, self._seed)

    def slower(self, keys: Sequence[Key], than: Key) -> Floats:
        """By how much each setting is slower than one, as logarithms: (draws, settings)."""
        assert self._fitted is not None
        rows = self._grid.rows([than, *keys])
        drawn = self._fitted.sample(rows, _DRAWS, np.random.default_rng(self._seed))
        return np.asarray(drawn[:, 1:] - drawn[:, :1])
