"""The only package that starts and ends processes.

Every command runs below a supervisor (:mod:`tuner.hosts.supervisor`), which ends it with all that
it started, also when tune itself is killed, and proves that nothing is left.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.hosts.process import left_over
from tuner.hosts.process.foreground import execute
from tuner.hosts.process.request import MARKER, new_marker, request_of
from tuner.hosts.process.running import Exit, Running, RunningTrial, hurry
from tuner.hosts.untrusted_files import create
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

#: What a short command may print, bytes, and how often that is looked at, s.
MOST_PRINTED = 16 << 20
_LOOK_S = 0.1


def start(launch: Launch, *, note: Path | None = None) -> RunningTrial:
    """Start a launch; what it prints goes to ``output.log`` in its folder (mode 0600).

    Args:
        launch: What to start.
        note: The file that tells the next ``tune`` of the launch, should this one be killed.

    Raises:
        OSError: The program or the working directory does not exist or may not be used (the
            error names it), or ``output.log`` cannot be written.
    """
    output = create(launch.folder / OUTPUT, os.O_APPEND)
    try:
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
        OSError: It cannot be started, or printed more than `MOST_PRINTED` bytes; it was ended.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        request = request_of(argv, os.environ if env is None else env, Path.cwd())
        running = RunningTrial(request, output=output.fileno(), error=error.fileno())
        files, until_s = (output, error), time.monotonic() + timeout_s
        try:
            ended = None
            while ended is None and (left_s := until_s - time.monotonic()) > 0:
                ended = running.wait(min(left_s, _LOOK_S))
                if any(os.fstat(file.fileno()).st_size > MOST_PRINTED for file in files):
                    raise OSError(errno.EFBIG, "it prints without an end", argv[0])
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
