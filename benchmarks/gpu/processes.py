"""Runs commands to a hard end; nothing that they start outlives it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

#: So long a command may take to end after SIGINT, s.
GRACE_S = 8.0

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of whatever loses its own below it; SIGTERM ends it as exit."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def start(
    argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to a file, after what the file has."""
    with log.open("ab") as output:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=cwd
        )


def wait(process: subprocess.Popen[bytes], limit_s: float) -> str:
    """Wait for a command, and end it after so long; return how it ended, empty if well."""
    try:
        code = process.wait(max(0.0, limit_s))
        return f"exit code {code}" if code else ""
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        process.kill()
        return f"ended after its {limit_s:.0f} s"


def end_all() -> None:
    """Kill all children until there are none: orphans become children."""
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                for pid in _children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)


def _children() -> list[int]:
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            pids += [int(stat.parent.name)] if int(parent) == os.getpid() else []
    return pids
