"""Folders that nobody else looks into, whatever the umask."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only (0700).

    What exists is left as it is.

    Raises:
        OSError: As ``Path.mkdir``; also where something else is in the way.
    """
    # mkdir(parents=True) would give its mode to the last folder only
    for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
        with suppress(FileExistsError):  # another process was quicker
            missing.mkdir(mode=0o700)
    path.mkdir(mode=0o700, exist_ok=True)  # a file in the way is an error
