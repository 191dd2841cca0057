"""Lets Chainer 7.8.1 (2022) run on today's NumPy.

Call :func:`install` before ``chainer`` is imported for the first time. What Chainer still
uses, and who took it away:

==================================  =====================================================
``numpy.sctypes``                   NumPy 2; ``chainer/functions/array/as_strided.py``
``numpy.float``                     NumPy 1.24; ``chainer/functions/array/resize_images.py``
``numpy.distutils.system_info``     Python 3.12; ``chainer/_environment_check.py``
``pkg_resources``                   setuptools 82; ``chainer/_environment_check.py``
==================================  =====================================================

Only the shipped trainers use this; a user's trainer runs in the user's environment, as it is.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

_CHECK = "chainer._environment_check"


def install() -> None:
    """Add what is missing; what is there stays untouched. Safe to call again."""
    if not hasattr(np, "sctypes"):
        # As in NumPy 1.26, without the platform's long types, which Chainer does not use.
        kinds = {
            "int": [np.int8, np.int16, np.int32, np.int64],
            "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
            "float": [np.float16, np.float32, np.float64, np.longdouble],
            "complex": [np.complex64, np.complex128, np.clongdouble],
        }
        setattr(np, "sctypes", kinds)  # noqa: B010 -- NumPy's types do not know the name
    if not hasattr(np, "float"):
        setattr(np, "float", float)  # noqa: B010
    # It compares installed packages with the versions of 2022, and takes each rank 0.15 s.
    check = ModuleType(_CHECK, "Replaced: its imports are gone.")
    setattr(check, "check", lambda: None)  # noqa: B010
    sys.modules.setdefault(_CHECK, check)
