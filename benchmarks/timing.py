"""How long a program takes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence


def seconds(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    """The time of a program from its start to its end, s; nobody sees what it prints."""
    begun_s = time.perf_counter()
    subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - begun_s
