"""Names the one thing that held a launch back, from what was recorded of it (pure).

Every rule says how large a share of the ranks' time its cause explains; the largest is the
verdict. docs/explain.md has the rules and their thresholds.
"""

from __future__ import annotations

from tuner.model import Machine, Outcome, Setting, StudySpec
from tuner.results.explain import cpu, waits
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Certainty, Diagnosis, remedy

__all__ = ["Cause", "Certainty", "Diagnosis", "explain"]

#: A cause that explains less of the ranks' time holds no run back: a knob would gain no more, and
#: on a host that stands still at times ranks that only compute wait for each other as long.
HELD_SHARE = 0.15
#: A cause that explains less is not listed.
LEAST_SHARE = 0.1

#: A verdict is clear if it explains this share, and this many times the share of the next cause.
CLEAR_SHARE = 0.2
CLEAR_TIMES = 1.5


def explain(outcome: Outcome, setting: Setting, spec: StudySpec, machine: Machine) -> Diagnosis:
    """Return the verdict on a launch of a setting, by what was recorded of it on a machine."""
    case = Case.of(outcome, machine)
    ranked = sorted(
        (s for s in (*cpu.suspects(case), *waits.suspects(case)) if s.share >= LEAST_SHARE),
        key=lambda suspect: -suspect.share,
    )
    bound = cpu.bound(case)
    is_held = bool(ranked) and ranked[0].share >= min(HELD_SHARE, bound.share)
    suspect, *others = ranked if is_held else [bound, *ranked]
    is_complete = bool(case.probed and case.host and case.recorded)
    is_ahead = suspect.share >= CLEAR_TIMES * (others[0].share if others else 0.0)
    certainty = Certainty.GUESS
    adds_up = case.unassigned_cores <= cpu.UNASSIGNED_CORES
    if suspect.cause is not Cause.UNKNOWN and adds_up and (is_complete or is_ahead):
        is_clear = is_complete and is_ahead and suspect.share >= CLEAR_SHARE
        certainty = Certainty.CLEAR if is_clear else Certainty.LIKELY
    is_idle = case.idle_cores >= cpu.IDLE_SHARE * case.cores
    return Diagnosis(
        suspect,
        certainty,
        remedy(suspect.cause, setting, spec, case, idle=is_idle),
        tuple(others),
        _gaps(outcome, case),
        case,
    )


def _gaps(outcome: Outcome, case: Case) -> tuple[str, ...]:
    """Return what could not be recorded, or not told apart."""
    window = outcome.window
    if outcome.telemetry is not None:
        gaps = list(outcome.telemetry.gaps)
    elif window is None:
        gaps = ["Nothing was recorded of this launch."]
    else:
        gaps = [
            f"It was measured in a window of job {window.job}, of which nothing was recorded:"
            " launches of its own (`tune --live off`) show more."
        ]
    if case.unassigned_cores > cpu.UNASSIGNED_CORES:
        gaps.append(
            f"{case.unassigned_cores:.1f} of the {case.busy_cores:.1f} cores that were busy belong"
            " to no rank that was seen: host and ranks do not add up."
        )
    if not case.probed:
        why = "no Python, or too short" if window is None else "a window of a running job"
        gaps.append(
            f"The ranks were not seen from inside ({why}): data loading, exchange and computing"
            " are told apart from outside only."
        )
    return tuple(gaps)
