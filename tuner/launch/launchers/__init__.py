"""The MPIs that can start a trial: found here, put into their own words in one file each.

Other packages add theirs by entry points of the group ``tuner.launchers``; the shipped ones
load the same way.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tuner.launch.launchers.discovery import VARIABLE, find
from tuner.launch.launchers.registry import GROUP, Launcher, launcher_for, launchers

__all__ = ["GROUP", "VARIABLE", "Launcher", "find", "launcher_for", "launchers", "wrapper_argv"]


def wrapper_argv() -> tuple[str, ...]:
    """The words that start ``task_wrapper.sh``, whether or not the file kept its x bit."""
    spec = find_spec("tuner.wrappers")
    assert spec is not None and spec.origin is not None  # it is part of this package
    return ("/bin/sh", str(Path(spec.origin).parent / "task_wrapper.sh"))
