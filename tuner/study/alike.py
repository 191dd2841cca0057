"""Settings that fail with one message: perhaps their values cannot go together. Pure."""

from __future__ import annotations

import re

from tuner.launch import command
from tuner.model import Failed, FailureKind, LaunchRecord
from tuner.study.history import History

#: This many settings that fail with one message are pointed out.
ENOUGH = 3

#: At most this many knobs stand in the example.
_MOST_NAMES = 3


def note(history: History) -> str:
    """Say that settings fail with one message, and how to leave such settings out.

    Empty: too few do, or the baseline does too, so that their values are not to blame. The figures
    in a message may differ.
    """
    canonical = history.pooling.canonical
    alike: dict[str, dict[object, LaunchRecord]] = {}
    for record in history.valid:
        ending = record.outcome.ending
        if isinstance(ending, Failed) and ending.kind is FailureKind.CRASHED:
            message = re.sub(r"\d+", "0", ending.reason)
            alike.setdefault(message, {}).setdefault(canonical(record.setting), record)
    for failures in alike.values():
        if len(failures) < ENOUGH or history.default in failures:
            continue
        first = list(failures.values())[:ENOUGH]
        ending = first[0].outcome.ending
        assert isinstance(ending, Failed)
        numbers = ", ".join(str(record.number) for record in first)
        return (
            f"{ENOUGH} settings failed with one message (launches {numbers}): {ending.reason};"
            " if only some values go together, say which, and no others are launched:"
            f" --require '{_example(history)}', for example"
        )
    return ""


def _example(history: History) -> str:
    """An expression of the study's own knobs: those in the command first."""
    placed = command.knobs_in(history.spec.command)
    names = [knob.name for knob in history.knobs]
    first = sorted(names, key=lambda name: name not in placed)[:_MOST_NAMES]
    return f"{' * '.join(first)} == ranks"
