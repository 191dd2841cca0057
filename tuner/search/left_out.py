"""What is lost by leaving knobs out: a model in which that is one more level of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tuner.search.gaussian import Gaussian, fit
from tuner.search.grid import Floats, Grid, Key, Space
from tuner.search.kernel import PRIOR, WINDOW_PRIOR, Kernel
from tuner.search.launch_groups import Groups, SearchObservation, grouped

#: Joint draws of the model.
_DRAWS = 1000

#: No launch is slower than another by more, a logarithm.
_NO_CEILING = 1000.0


class LeftOutModel:
    """The model of the search, of settings that leave knobs out as well.

    The knobs of the space say if they are optional; none depends on another. ``groups`` holds what
    is known of each setting; one of those that are asked for must have a time.
    """

    def __init__(self, space: Space, history: Sequence[SearchObservation], seed: int) -> None:
        self.groups: Groups = grouped(history)
        prior = WINDOW_PRIOR if any(launch.in_job for launch in history) else PRIOR
        self._kernel, self._seed = Kernel(Grid(space), prior), seed

    def losses(self, keys: Sequence[Key], than: Key) -> list[float]:
        """Return by how much, a logarithm, each setting is expected to be slower than one."""
        if not keys:
            return []
        assert self._bounded is not None
        mean, _ = self._bounded.predict(self._kernel.grid.rows([than, *keys]))
        return [float(loss) for loss in mean[1:] - mean[0]]

    def chances(self, keys: Sequence[Key], than: Key, most: float) -> list[float]:
        """Return how likely each setting is slower than one by no more than this, a logarithm."""
        if not keys:
            return []
        drawn = self._drawn(self._bounded, [than, *keys])
        return [float(share) for share in (drawn[:, 1:] - drawn[:, :1] <= most).mean(0)]

    def ratio(self, key: Key, over: Key) -> tuple[float, float, float]:
        """Return the time of a setting over that of another: the median and a 95 % interval."""
        drawn = self._drawn(self._whole, [key, over])
        low, middle, high = np.quantile(np.exp(drawn[:, 0] - drawn[:, 1]), (0.025, 0.5, 0.975))
        return float(middle), float(low), float(high)

    def _drawn(self, model: Gaussian | None, keys: Sequence[Key]) -> Floats:
        assert model is not None
        rows, rng = self._kernel.grid.rows(keys), np.random.default_rng(self._seed)
        return model.sample(rows, _DRAWS, rng)

    @cached_property
    def _bounded(self) -> Gaussian | None:
        return fit(self._kernel, self.groups, self._seed)

    @cached_property
    def _whole(self) -> Gaussian | None:
        return fit(self._kernel, self.groups, self._seed, _NO_CEILING)
