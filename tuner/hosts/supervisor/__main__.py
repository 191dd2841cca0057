"""Started as ``python -I -S FOLDER STATUS_FD CONTROL_FD``: finds the package it lies in."""

from __future__ import annotations

import os
import sys


def _run() -> None:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (costs start-up time)
    # Last, so that nothing installed there stands before the standard library.
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))  # noqa: PTH120
    sys.path[:] = [*sys.path[1:], root]
    from tuner.hosts.supervisor.serving import main

    main(sys.argv)


if __name__ == "__main__":
    _run()
