"""What must not be kept or shown: passwords, tokens and keys in commands, URLs and texts.

A secret is known by the name it goes by, by its shape, or as the value of such a variable in
this environment. Programs get the real values; what is stored, exported or printed has ``***``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tuner.launch.secrets.patterns import HIDDEN, hide_shapes, is_secret, is_secret_variable
from tuner.launch.secrets.redactor import (
    Redactor,
    kept_record,
    recorded_environment,
    redact_spec,
)

__all__ = [
    "HIDDEN",
    "Redactor",
    "hide_shapes",
    "is_secret",
    "is_secret_variable",
    "kept_record",
    "make_folder",
    "recorded_environment",
    "redact_spec",
]


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only (0700).

    What exists is left as it is.

    Raises:
        OSError: As ``Path.mkdir``; also if something else is in the way.
    """
    # mkdir(parents=True) would give its mode to the last folder only
    for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
        with suppress(FileExistsError):  # another process was quicker
            missing.mkdir(mode=0o700)
    path.mkdir(mode=0o700, exist_ok=True)  # a file in the way is an error
