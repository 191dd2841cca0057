"""Loads NumPy with a BLAS of one thread.

The matrices are small: several threads only wait for each other, and on a host whose cores
are busy they do so a hundred times longer than the work takes. The variables are put back,
so that what is started later sees the user's own. Nothing changes where NumPy is loaded
already.
"""

from __future__ import annotations

import importlib
import os

_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def load() -> None:
    """Import NumPy, its BLAS held to one thread."""
    kept = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    try:
        importlib.import_module("numpy")
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


load()
