"""The search: a Gaussian process over the settings says what to launch next.

Pure: a launch follows from a history. NumPy is loaded here, so this package is imported late.
:class:`RuntimeSampler`, :class:`RacePruner` and :class:`RuntimeTerminator` are the search for any
study of Optuna, and what ``tune`` runs on.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any


def load_numpy() -> None:
    """Import NumPy, its BLAS held to one thread; programs started later get the user's variables.

    The matrices are small: on a host whose cores are busy, several threads wait for each other a
    hundred times longer than the work takes.
    """
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    users = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        import_module("numpy")
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(users)


load_numpy()

if TYPE_CHECKING:
    from tuner.search.pruner import RacePruner
    from tuner.search.sampler import RuntimeSampler, RuntimeTerminator

__all__ = ["RacePruner", "RuntimeSampler", "RuntimeTerminator"]

#: The modules of names that need Optuna; they are loaded at the first use.
_LATE = {"RuntimeSampler": "sampler", "RacePruner": "pruner", "RuntimeTerminator": "sampler"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tuner.search.{_LATE[name]}"), name)
