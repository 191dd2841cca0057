"""Settings that fail with one message: perhaps their values cannot go together. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from tuner.launch import command, failure
from tuner.model import Failed, FailureKind
from tuner.study.history import History

#: This many settings that fail with one message are pointed out.
ENOUGH = 3

#: At most this many knobs stand in the example.
_MOST_NAMES = 3


def note(history: History) -> str:
    """Say that settings fail with one message, and how to leave such settings out.

    Empty: too few do, or the baseline does too, so that their values are not to blame. The figures
    in the program's own line may differ.
    """
    canonical = history.pooling.canonical
    alike: dict[tuple[int | None, str], dict[object, tuple[int, str]]] = {}
    for record in history.valid:
        ending, code = record.outcome.ending, record.outcome.exit_code
        if not isinstance(ending, Failed) or ending.kind is not FailureKind.CRASHED:
            continue
        if line := _own_line(code, ending.log_tail):
            settings = alike.setdefault((code, re.sub(r"\d+", "0", line)), {})
            settings.setdefault(canonical(record.setting), (record.number, line))
    for settings in alike.values():
        if len(settings) < ENOUGH or history.default in settings:
            continue
        launches = list(settings.values())[:ENOUGH]
        numbers = ", ".join(str(number) for number, _ in launches)
        return (
            f"{ENOUGH} settings failed with one message (launches {numbers}): {launches[0][1]};"
            " if only some values go together, say which, and no others are launched:"
            f" --require '{_example(history)}', for example"
        )
    return ""


@lru_cache(1024)
def _own_line(code: int | None, output: str) -> str:
    """Return the line of a failed launch's output that tells why; empty if it printed none."""
    return failure.explain(code, output).line


def _example(history: History) -> str:
    """An expression of the study's own knobs: those in the command first."""
    placed = command.knobs_in(history.spec.command)
    names = [knob.name for knob in history.knobs]
    first = sorted(names, key=lambda name: name not in placed)[:_MOST_NAMES]
    return f"{' * '.join(first)} == ranks"
