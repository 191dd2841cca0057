"""Finds the fastest runtime setting for a distributed training command.

>>> import tuner
>>> result = tuner.tune("python train.py --out {out}", mpi_procs=4)  # doctest: +SKIP

``tune`` prints only in a notebook and never exits; a :class:`TunerError` says what went wrong.
The names load when they are first used, so that ``import tuner`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import TuneResult, tune
    from tuner.model import Result, StudySpec
    from tuner.model.errors import TunerError

    __version__: str

__all__ = ["Result", "StudySpec", "TuneResult", "TunerError", "__version__", "tune"]

_HOMES = {
    "Result": "tuner.model",
    "StudySpec": "tuner.model",
    "TuneResult": "tuner.api",
    "TunerError": "tuner.model.errors",
    "tune": "tuner.api",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("runtime-tuner")
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
