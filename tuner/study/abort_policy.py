"""When to give a study up, and what its user is told then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tuner.hosts import process
from tuner.launch import stacks
from tuner.model import FROM_OUTSIDE, Failed, FailureKind, LaunchRecord
from tuner.model.errors import LimitReachedError, NothingMeasuredError, TunerError
from tuner.stats import estimates

#: So many launches in a row that were ended from outside end the study: it would go on so.
LOST_IN_A_ROW = 3

_MENDED = ", mend the cause, then run the same command again."
_WITHOUT_LOG = (
    ": has the program done its work? --log NAME names another file below {out}; --objective wall"
    " needs no log, --objective 'pattern:REGEX' reads what is printed."
)


def give_up(failures: Sequence[LaunchRecord]) -> NoReturn:
    """End a study in which nothing works, or nothing but the defaults that are not asked for.

    Raises:
        LimitReachedError: All were over the time limit.
        NothingMeasuredError: Otherwise.
    """
    record, failed = next(
        (record, record.outcome.ending)
        for record in estimates.counted(failures)
        if isinstance(record.outcome.ending, Failed)
    )
    if all_over_the_limit(failures):
        raise LimitReachedError(
            f"nothing could be measured: each of {len(failures)} launches was over the"
            f" time limit ({failed.reason})",
            f"Give them more time with --trial-limit, or read {_told_in(record)}.",
        )
    raise NothingMeasuredError(
        f"nothing could be measured: {len(failures)} launches in a row failed, the first with"
        f" {failed.kind}: {failed.reason}",
        f"Read {_told_in(record)}{_WITHOUT_LOG if failed.kind is FailureKind.NO_LOG else _MENDED}",
    )


def all_over_the_limit(failures: Sequence[LaunchRecord]) -> bool:
    """True where a larger time limit may be all that is missing."""
    kinds = {getattr(record.outcome.ending, "kind", None) for record in failures}
    return kinds == {FailureKind.LIMIT}


def require_hope(lost: Sequence[LaunchRecord]) -> None:
    """End a study whose launches are ended from outside again and again.

    Args:
        lost: Those in a row that were, the latest last.

    Raises:
        TunerError: They are too many.
    """
    if len(lost) < LOST_IN_A_ROW:
        return
    ending = lost[-1].outcome.ending
    assert isinstance(ending, Failed)
    raise TunerError(
        f"{len(lost)} launches in a row were ended from outside, the last one as"
        f" {ending.kind}: {ending.reason}",
        f"Read {_told_in(lost[-1])}, mend the cause, then run the same command again: what was"
        " measured is kept.",
    )


def is_lost(record: LaunchRecord) -> bool:
    """True where the launch was ended from outside, and is to be made again."""
    ending = record.outcome.ending
    return isinstance(ending, Failed) and ending.kind in FROM_OUTSIDE


def require_space(record: LaunchRecord) -> None:
    """End the study where a launch found the disk full: the next one would too.

    Raises:
        TunerError: It did.
    """
    ending = record.outcome.ending
    if isinstance(ending, Failed) and ending.kind is FailureKind.DISK_FULL:
        raise TunerError(
            f"the disk is full, or its quota used up: launch {record.number} ended with"
            f" {ending.reason}",
            "Free some space, then run the same command again: what was measured is kept.",
        )


def _told_in(record: LaunchRecord) -> Path:
    """Where the launch's own files say most of its end: a hung one has printed nothing."""
    folder = Path(record.folder)
    hung = getattr(record.outcome.ending, "kind", None) is FailureKind.STALLED
    traces = folder / stacks.FOLDER
    return traces if hung and traces.is_dir() else folder / process.OUTPUT
