"""Recorded jobs to search without a cluster: the very course of a live study on a virtual clock.

NumPy is loaded here, so import it late.
"""

from __future__ import annotations

from benchmarks.replay.study import Launched, Study, play, spec
from benchmarks.replay.surface import Surface, load

__all__ = ["Launched", "Study", "Surface", "load", "play", "spec"]
