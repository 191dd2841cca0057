"""``--on-finish``: a command that gets the result of a study."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence

from tuner.model.errors import UsageError

#: The command is ended if it takes longer, s.
LIMIT_S = 300.0


def check(command: Sequence[str]) -> None:
    """Raise ``UsageError`` if the command of ``--on-finish`` cannot be started."""
    if not command or shutil.which(command[0]) is None:
        program = repr(command[0]) if command else "an empty command"
        raise UsageError(
            f"--on-finish: {program} is no program that can be run",
            "name one that is on PATH, or the path of an executable file",
        )


def tell(command: Sequence[str], document: str) -> None:
    """Give the result to a command; if that fails, the result stands all the same."""
    from tuner.cli import console
    from tuner.hosts.process import run_tool
    from tuner.launch.secrets import Redactor
    from tuner.model.wording import failed_command

    redactor = Redactor.of(os.environ, command)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tune-", suffix=".json") as file:
            file.write(document)
            file.flush()
            reading = ("sh", "-c", 'exec "$@" < "$0"', file.name, *command)
            done = run_tool(reading, timeout_s=LIMIT_S)
    except OSError as error:  # it cannot be started, takes too long, or there is no room
        said = error.strerror or str(error)
    else:
        for line in (*done.stdout.splitlines(), *done.stderr.splitlines()):
            console.err(redactor.text(line))
        said = failed_command(done.returncode, done.stderr) if done.returncode else ""
    if said:
        shown = shlex.join(redactor.words(command))
        console.warn(f"--on-finish {shown}: {redactor.text(said)}")
