"""Knobs that a study launches cold from some point on, and why. Pure.

**Live and cold disagree** of a setting: the knobs that were switched for it
(:mod:`tuner.study.live_vs_cold_check`).

**No job can be switched.** `VALUES` values of a knob could not be switched to, though a launch
with each worked: that is the way the program changes the knob, and the next value would fail alike,
for a window, the job and a launch. One value by itself may be one that this program cannot take
while it runs, however often it is tried; one that no launch can have either is the setting's fault.

The records are all that it takes, so a resumed study decides alike. What else was measured in
those jobs counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.live.readback import Refusal, refusal
from tuner.model import Failed, FailureKind, LaunchRecord, wording
from tuner.study.history import History
from tuner.study.interference import is_remeasured
from tuner.study.live_vs_cold_check import blamed

#: So many values of a knob that no running job took tell that it takes none.
VALUES = 2


def frozen(records: Sequence[LaunchRecord]) -> frozenset[str]:
    """The knobs that are launched cold from now on."""
    return blamed(records) | frozenset(_refusals(records))


def is_all_frozen(plan: History) -> bool:
    """True where no knob is left that a running job could change."""
    held = frozen(plan.records)
    windows = [r.outcome.window for r in plan.records if r.outcome.window is not None]
    tuned = {knob.name for knob in plan.knobs}
    return bool(held) and not tuned & set(windows[-1].live) - held


def refused(record: LaunchRecord) -> Refusal | None:
    """What the job of a window could not be switched to; ``None``: that was not its end."""
    ending, outcome = record.outcome.ending, record.outcome
    if outcome.window is None or is_remeasured(record) or not isinstance(ending, Failed):
        return None
    return refusal(ending.reason) if ending.kind is FailureKind.SWITCH else None


def notes(plan: History) -> list[str]:
    """What to say of each knob that no running job could change."""
    return [
        f"{knob} is changed by launches alone in this study: running jobs could not be switched to"
        f" {wording.one_line(first.text)}, nor to {' or '.join(each.what for each in others)}"
        for knob, (first, *others) in _refusals(plan.records).items()
    ]


def _refusals(records: Sequence[LaunchRecord]) -> dict[str, list[Refusal]]:
    """The knobs of which `VALUES` values could not be switched to, and the first ones of these."""
    works = {record.setting for record in records if _worked_by_itself(record)}
    seen: dict[str, dict[str, Refusal]] = {}
    for record in records:
        found = refused(record) if record.setting in works else None
        if found is not None:
            seen.setdefault(found.knob, {}).setdefault(found.what, found)
    return {knob: list(of.values())[:VALUES] for knob, of in seen.items() if len(of) >= VALUES}


def _worked_by_itself(record: LaunchRecord) -> bool:
    """True where a program that was started with the setting has not failed."""
    window = record.outcome.window
    started = window is None or window.job == record.number
    return started and not isinstance(record.outcome.ending, Failed)
