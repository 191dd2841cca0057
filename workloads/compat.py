"""Lets Chainer 7.8.1 (2022) run on today's NumPy.

Call :func:`install` before ``chainer`` is imported for the first time. What Chainer still
uses, and who took it away:

==================================  =====================================================
``numpy.sctypes``                   NumPy 2; ``chainer/functions/array/as_strided.py``
``numpy.float``                     NumPy 1.24; ``chainer/functions/array/resize_images.py``
``numpy.distutils.system_info``     Python 3.12; ``chainer/_environment_check.py``
``pkg_resources``                   setuptools 82; ``chainer/_environment_check.py``
==================================  =====================================================

Only our own trainers use this; a user's trainer runs in the user's environment, as it is.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from types import ModuleType

import numpy as np

_CHECK = "chainer._environment_check"


def install() -> tuple[str, ...]:
    """Add what is missing; what is there stays untouched. Safe to call again.

    Returns:
        The names that were added: empty on an old NumPy with an old setuptools, and when
        called again.
    """
    added = []
    if not _numpy_has("sctypes"):
        # As in NumPy 1.26, without the platform's long types that no code here asks for.
        kinds = {
            "int": [np.int8, np.int16, np.int32, np.int64],
            "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
            "float": [np.float16, np.float32, np.float64, np.longdouble],
            "complex": [np.complex64, np.complex128, np.clongdouble],
        }
        setattr(np, "sctypes", kinds)  # noqa: B010 -- NumPy's types do not know the name
        added.append("numpy.sctypes")
    if not _numpy_has("float"):
        setattr(np, "float", float)  # noqa: B010
        added.append("numpy.float")
    if _CHECK not in sys.modules and "chainer" not in sys.modules and not _check_can_run():
        sys.modules[_CHECK] = _empty_check()
        added.append(_CHECK)
    return tuple(added)


def _numpy_has(name: str) -> bool:
    with warnings.catch_warnings():
        # NumPy 1.20 to 1.23 warn where an alias is only asked for.
        warnings.simplefilter("ignore")
        return hasattr(np, name)


def _check_can_run() -> bool:
    """Whether Chainer's check of its optional dependencies finds what it imports.

    On NumPy 2 it is left out in any case: it compares installed packages with the versions of
    2022, and the import of ``numpy.distutils`` and ``pkg_resources`` takes each rank 0.15 s.
    """
    if int(np.__version__.split(".")[0]) >= 2:
        return False
    return all(importlib.util.find_spec(name) for name in ("numpy.distutils", "pkg_resources"))


def _empty_check() -> ModuleType:
    """Stands in for Chainer's own module, so that no other library meets a stub."""
    module = ModuleType(_CHECK, "Replaced: its imports are gone.")
    setattr(module, "check", lambda: None)  # noqa: B010
    return module
