"""The search: a Gaussian process over the settings says what to launch next.

Pure: it sees a history and answers with a launch. NumPy is loaded here, so import it late.
"""

from __future__ import annotations

from tuner.search import blas as _blas  # noqa: F401  NumPy is loaded there first
from tuner.search.engine import Done, Proposal, Search
from tuner.search.history import Observation
from tuner.search.live import Live
from tuner.search.options import Options
from tuner.search.space import Key, KnobAxis, Space

__all__ = [
    "Done",
    "Key",
    "KnobAxis",
    "Live",
    "Observation",
    "Options",
    "Proposal",
    "Search",
    "Space",
]
