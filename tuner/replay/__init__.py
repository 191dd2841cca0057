"""Recorded jobs to search without a cluster: the very course of a live study on a virtual clock.

NumPy is loaded here, so import it late.
"""

from __future__ import annotations

from tuner.replay import trace
from tuner.replay.study import Launched, Study, play, spec
from tuner.replay.surface import Surface
from tuner.replay.surface_file import load

__all__ = ["Launched", "Study", "Surface", "load", "play", "spec", "trace"]
