"""What the supervisor is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.hosts import supervisor

MARKER = supervisor.MARKER

#: Where the temporary files of a launch go if its TMPDIR is too long.
_SHORT = "/tmp"
#: The longest folder that still leaves room for ours and for the sockets that MPIs and Python's
#: multiprocessing make below it: a socket's path has at most 108 bytes (unix(7)).
_LONGEST = 50


def request_of(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    *,
    foreground: bool = False,
    apart: bool = False,
) -> dict[str, Any]:
    """What the supervisor is told: bytes as latin-1 text, which any path or value survives.

    ``apart``: give it a control group and a folder for temporary files of its own.
    """
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
        "cgroup": supervisor.place_for(name_of(marker)) if apart else "",
        "folder": str(_temporary(env) / name_of(marker)) if apart else "",
    }


def new_marker() -> str:
    """A fresh value for ``TUNE_TRIAL``."""
    return os.urandom(16).hex()


def name_of(marker: str) -> str:
    """What a trial's control group and its folder for temporary files are called."""
    return f"tune-{marker[:16]}"


def _temporary(env: Mapping[str, str]) -> Path:
    asked = env.get("TMPDIR", "")
    fits = asked.startswith("/") and len(os.fsencode(asked)) <= _LONGEST
    return Path(asked if fits and asked.isascii() else _SHORT)


def _text(value: str) -> str:
    return os.fsencode(value).decode("latin-1")
