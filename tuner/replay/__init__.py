"""Recorded jobs to search without a cluster: the search's own code on a virtual clock.

NumPy is loaded here, so import it late.
"""

from __future__ import annotations

from tuner.replay import trace
from tuner.replay.study import Searcher, Step, Study, play, space
from tuner.replay.surface import Surface, load

__all__ = ["Searcher", "Step", "Study", "Surface", "load", "play", "space", "trace"]
