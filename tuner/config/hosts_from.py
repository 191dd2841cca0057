"""``--hosts-from``: a command of the user's says which hosts there are now (spot instances)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tuner.config.hosts import Offer, parse_hostfile
from tuner.hosts.process import run_tool
from tuner.model.errors import UsageError
from tuner.model.wording import failed_command

#: The command ends sooner, s: it may wait until there are enough hosts.
LIMIT_S = 600.0

_HINT = "run the command by itself: it must print one host a line, such as `h1 4`"


def hosts_from(
    command: Sequence[str], cancelled: Callable[[], bool] = lambda: False
) -> tuple[Offer, ...]:
    """The hosts that a command prints, as in a hostfile.

    Raises:
        KeyboardInterrupt: Cancelled.
        UsageError: It fails, or prints something else.
    """
    source = f"--hosts-from {shlex.join(command)}"
    try:
        done = run_tool(command, timeout_s=LIMIT_S, cancelled=cancelled)
    except OSError as error:  # a TimeoutError too
        raise UsageError(f"{source}: {error.strerror or error}", _HINT) from error
    if done.returncode:
        raise UsageError(f"{source}: {failed_command(done.returncode, done.stderr)}", _HINT)
    return parse_hostfile(done.stdout, source)
