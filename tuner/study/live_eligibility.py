"""Which launches of a study are due to be windows of a running job, as its records tell. Pure."""

from __future__ import annotations

from dataclasses import replace

from tuner.model import FROM_OUTSIDE, Failed, FailureKind, LaunchRecord, Purpose, Setting, Stopped
from tuner.study.cold_only_knobs import frozen, is_all_frozen, refused
from tuner.study.history import History

#: Launches of their own in any study: what they prove is proven of what is exported.
COLD = frozenset({Purpose.WARM_UP, Purpose.CONFIRM, Purpose.RECORD})

#: Failures that no switch can be at fault for.
NOT_BY_THE_SWITCH = FROM_OUTSIDE | {FailureKind.LIMIT}

#: A program that never took orders will not begin to. One whose jobs had windows can: ranks that
#: once did not connect were kept from it by chance (a crowded host, a slow file system with the
#: socket). So many such launches in a row tell that it is over; each counts as what it was.
IN_A_ROW = 2


def iterations_due(plan: History, purpose: Purpose, setting: Setting) -> int | None:
    """Those of the full run that a window is to stand for, as long as jobs take orders.

    ``None``: a launch of its own is due.
    """
    cold = purpose in COLD or is_all_frozen(plan) or _failed_in_a_window(plan, setting)
    return None if cold else plan.expected_iterations(setting)


def takes_none(plan: History) -> bool:
    """Whether the next job will take no orders either, after a launch that took none.

    Where a window was due and it became a launch, that one took none. (So look one that ended by
    chance before its first window was long enough, and one that was made with ``--live off``:
    then fewer are waited for.) A resumed study decides as one that went on.
    """
    if all(record.outcome.window is None for record in plan.records):
        return True
    found = 0
    for place, record in reversed(list(enumerate(plan.records))):
        if record.outcome.window is not None or found == IN_A_ROW:
            break
        before = replace(plan, records=plan.records[:place])
        due = iterations_due(before, record.purpose, record.setting) is not None
        found += due and _came_far_enough(record)
    return found >= IN_A_ROW


def _came_far_enough(record: LaunchRecord) -> bool:
    """True where ranks that take orders would have said so."""
    outcome = record.outcome
    return not isinstance(outcome.ending, Failed | Stopped) or outcome.exclusion is not None


def _failed_in_a_window(plan: History, setting: Setting) -> bool:
    """True where a window of the setting failed: the next launch is one of its own."""
    held = frozen(plan.records)
    return any(
        record.setting == setting and _may_fail_again(record, held) for record in plan.records
    )


def _may_fail_again(record: LaunchRecord, held: frozenset[str]) -> bool:
    """True for a window that failed, unless by the switch of a knob that is not switched any more.

    Args:
        record: Any launch.
        held: The knobs that are not.
    """
    window, ending = record.outcome.window, record.outcome.ending
    if window is None or not isinstance(ending, Failed) or ending.kind in NOT_BY_THE_SWITCH:
        return False
    found = refused(record)
    return found is None or found.knob not in held
