"""Executable scripts for tests."""

from __future__ import annotations

import shlex
import sys


def python_script(code: str) -> str:
    """A script that runs `code` with this interpreter, whose path may hold a space.

    A ``#!`` line cannot name such a path, so ``sh`` starts it: the second and third lines are
    one string to Python (pip writes its scripts in the same way).
    """
    return f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n{code}"
