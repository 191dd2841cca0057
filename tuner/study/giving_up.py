"""The error that ends a study in which nothing works, with what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.hosts import process, stacks
from tuner.model import (
    LOGGED_TIME,
    Failed,
    FailureKind,
    LaunchRecord,
    ObjectiveSpec,
    Stopped,
    figures,
)
from tuner.model.errors import LimitReachedError, NothingMeasuredError
from tuner.stats import evidence

#: What to do if nothing works, behind "read FILE".
_USUAL_ADVICE = (
    ": it shows how the first one ended. Start the program by itself until it runs (with --dry-run"
    " the same command prints how it is launched); then the same command goes on"
)
_ADVICE = {
    FailureKind.NO_LOG: (
        ": has the program done its work? --log NAME names another file below {out}; --objective"
        " wall needs no log, --objective 'pattern:REGEX' reads what is printed"
    ),
    FailureKind.CUT_FIGURE: ": the pattern has to read the whole number; then run it with --fresh",
    FailureKind.DOUBTED_FIGURE: ": does the objective read what is to be compared?",
}


def why_given_up(
    failures: Sequence[LaunchRecord],
    claim: str = "nothing could be measured",
    objective: ObjectiveSpec = LOGGED_TIME,
) -> NothingMeasuredError | LimitReachedError:
    """Return the error that ends a study in which nothing works, or nothing but the baseline."""
    counted = evidence.counted(failures)
    if not counted:
        return NothingMeasuredError(
            "the search was ended before a setting was tried",
            "let it go on for longer: --terminator tune, and more --trials",
        )
    stopped = [ending for r in counted if isinstance(ending := r.outcome.ending, Stopped)]
    failed = [(r, ending) for r in counted if isinstance(ending := r.outcome.ending, Failed)]
    if all(ending.kind is FailureKind.LIMIT for _, ending in failed):
        if stopped:
            quickest = min(stopped, key=lambda ending: ending.projection_s)
            text = "was stopped before its end; the quickest was"
            text += f" {figures.stopped(objective, quickest)}"
        else:
            text = f"was over a time limit ({failed[0][1].reason})"
        return LimitReachedError(
            f"{claim}: each of {len(counted)} launches {text}",
            "give them more time with --max-time or --trial-limit, or take another --pruner;"
            f" {where_to_read(counted[0])} shows what the first one did",
        )
    record, first = failed[0]
    return NothingMeasuredError(
        f"{claim}: {len(failures)} launches in a row failed, the first with"
        f" {first.kind}: {first.reason}",
        f"read {where_to_read(record)}{_ADVICE.get(first.kind, _USUAL_ADVICE)}",
    )


def where_to_read(record: LaunchRecord) -> Path:
    """Return what says most of a launch's end: its output, or the stacks if it hung."""
    folder = Path(record.folder)
    is_hung = getattr(record.outcome.ending, "kind", None) is FailureKind.STALLED
    traces = folder / stacks.FOLDER
    return traces if is_hung and traces.is_dir() else folder / process.OUTPUT
