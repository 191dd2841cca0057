"""What the supervisor is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner import supervisor

MARKER = supervisor.MARKER


def request_of(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, *, foreground: bool = False
) -> dict[str, Any]:
    """What the supervisor is told: bytes as latin-1 text, which any path or value survives."""
    marker = env.get(MARKER, "")
    if not marker or marker == os.environ.get(MARKER):  # tune itself may run inside a trial
        marker = new_marker()
    return {
        "argv": [_text(each) for each in argv],
        "env": {_text(name): _text(value) for name, value in {**env, MARKER: marker}.items()},
        "cwd": _text(str(cwd.absolute())),
        "marker": marker,
        "parent": os.getpid(),
        "foreground": foreground,
    }


def new_marker() -> str:
    """A fresh value for ``TUNE_TRIAL``."""
    return os.urandom(16).hex()


def _text(value: str) -> str:
    return os.fsencode(value).decode("latin-1")
