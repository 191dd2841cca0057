"""The exit codes of ``tune``, in one place; an error's own code is in ``tuner.model.errors``."""

from __future__ import annotations

import signal

OK = 0
#: A defect in ``tune`` itself (Python's own code for an uncaught exception).
DEFECT = 1
USAGE = 2
#: The machine ended the command, by a full disk for one; what was measured is kept.
STOPPED = 3
#: The code of ``tune doctor`` if a study would fail.
WOULD_FAIL = 3
#: The code of ``tune compare --fail-if-slower`` if AFTER is proven to be worse.
WORSE = 6

#: The code of ``tune exec --first-tune`` for a job whose program is missing, as a shell's.
NOT_FOUND = 127

#: What ``tune --help`` says about them.
MEANINGS = (
    ("0", "a result"),
    ("1", "a defect in `tune` itself"),
    ("2", "a mistake in the command line or in a file"),
    ("3", "nothing more could be measured; what was measured is kept (doctor: a study would fail)"),
    ("4", "every launch was over --trial-limit or --max-time"),
    ("5", "another process holds this machine or the database"),
    ("6", "compare: slower than --fail-if-slower allows"),
    ("128+n", "ended by signal n (130: Ctrl-C); type the same command again to continue"),
)


def by_signal(number: int = signal.SIGINT) -> int:
    """Return the code of a program that a signal has ended, as shells give it."""
    return 128 + number
