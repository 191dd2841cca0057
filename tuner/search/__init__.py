"""The search: a Gaussian process over the settings says what to launch next.

Pure: it sees a history and answers with a launch. NumPy is loaded here, so import it late.
:class:`RuntimeSampler` and :class:`RacePruner` are the same for any study of Optuna.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.search import blas as _blas  # noqa: F401  NumPy is loaded there first
from tuner.search.engine import Done, Proposal, Search
from tuner.search.history import SearchObservation
from tuner.search.live import Live
from tuner.search.options import Options
from tuner.search.space import Key, KnobAxis, Space

if TYPE_CHECKING:
    from tuner.search.pruner import RacePruner
    from tuner.search.sampler import RuntimeSampler

__all__ = [
    "Done",
    "Key",
    "KnobAxis",
    "Live",
    "Options",
    "Proposal",
    "RacePruner",
    "RuntimeSampler",
    "Search",
    "SearchObservation",
    "Space",
]


def __getattr__(name: str) -> Any:
    """Load what needs Optuna at its first use."""
    if name == "RuntimeSampler":
        from tuner.search.sampler import RuntimeSampler

        return RuntimeSampler
    if name == "RacePruner":
        from tuner.search.pruner import RacePruner

        return RacePruner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
