"""Runs commands to a hard end, each below tune's supervisor: nothing that they start outlives it.

This part of `tune` needs the standard library alone, so it works before anything is installed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.hosts.process import SupervisedCommand, request_of

#: So long a command may take to end after SIGINT, s.
GRACE_S = 8.0


def exit_by_signals() -> None:
    """Let SIGINT and SIGTERM end this process by an exception, so that it ends its commands."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def start(argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path) -> SupervisedCommand:
    """Start a command whose output goes to a file, after what the file has."""
    with log.open("ab") as output:
        request = request_of(argv, env, cwd)
        return SupervisedCommand(request, output=output.fileno(), error=output.fileno())


def wait(command: SupervisedCommand, limit_s: float) -> str:
    """Wait for a command, and end it after so long; return how it ended, empty if well."""
    try:
        if exit_ := command.wait(max(0.0, limit_s)):
            return f"exit code {exit_.code}" if exit_.code else ""
        command.forward(signal.SIGINT)  # a study keeps what it has measured
        command.wait(GRACE_S)
        return f"ended after its {limit_s:.0f} s"
    finally:
        command.stop()
