"""The only package that starts and ends processes.

Every command runs below a supervisor (:mod:`tuner.hosts.supervisor`), which ends it with all that
it started, also when tune itself is killed, and proves that nothing is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.hosts.process import left_over
from tuner.hosts.process.foreground import execute
from tuner.hosts.process.request import MARKER, new_marker, request_of
from tuner.hosts.process.running import Exit, Running, RunningTrial, hurry
from tuner.model import Launch

__all__ = [
    "MARKER",
    "OUTPUT",
    "Exit",
    "Running",
    "RunningTrial",
    "execute",
    "hurry",
    "new_marker",
    "run_tool",
    "start",
]

#: The name of the file in a trial's folder that takes the output of the command.
OUTPUT = "output.log"


def start(launch: Launch, *, note: Path | None = None) -> RunningTrial:
    """Start a launch; what it prints goes to ``output.log`` in its folder (mode 0600).

    Args:
        launch: What to start.
        note: The file that tells the next ``tune`` of the launch, should this one be killed.

    Raises:
        OSError: The program or the working directory does not exist or may not be used (the
            error names it), or ``output.log`` cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    output = os.open(launch.folder / OUTPUT, flags, 0o600)
    try:
        os.fchmod(output, 0o600)  # it may exist, with another mode
        request = request_of(launch.argv, launch.env, launch.cwd, apart=True)
        if note is not None:
            left_over.write(note, request)
        try:
            return RunningTrial(request, output=output, error=output, note=note)
        except BaseException:
            if note is not None:
                left_over.end(note)
            raise
    finally:
        os.close(output)


def run_tool(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a short command without input and collect what it prints.

    Raises:
        TimeoutError: It took longer than ``timeout_s``; it was ended.
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        request = request_of(argv, os.environ if env is None else env, Path.cwd())
        running = RunningTrial(request, output=output.fileno(), error=error.fileno())
        try:
            ended = running.wait(timeout_s)
        finally:
            last = running.stop()
        texts = []
        for file in (output, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if ended is None:
        raise TimeoutError(f"{argv[0]} does not end within {timeout_s:g} s")
    code = -signal.SIGKILL if last.code is None else last.code
    return subprocess.CompletedProcess(list(argv), code, texts[0], texts[1])
