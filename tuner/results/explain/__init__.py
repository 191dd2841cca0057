"""Names the one thing that held a launch back, from what was recorded of it (pure).

Every rule says how large a share of the ranks' time its cause explains; the largest is the
verdict. docs/explain.md has the rules and their thresholds.
"""

from __future__ import annotations

from tuner.model import Machine, Outcome, Setting, StudySpec
from tuner.results.explain import cpu, waits
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Certainty, Explanation, Remedy, Suspect, remedy

__all__ = ["Case", "Cause", "Certainty", "Explanation", "Remedy", "Suspect", "explain"]

#: What explains less of the ranks' time does not hold a run back: a knob would win no more, and
#: on a host that stands still at times ranks that only compute wait for each other as long.
HELD_SHARE = 0.15
#: What explains less is not spoken of.
LEAST_SHARE = 0.1

#: A verdict is clear where it explains this much, and this many times what the next one does.
CLEAR_SHARE = 0.2
CLEAR_TIMES = 1.5


def explain(outcome: Outcome, setting: Setting, spec: StudySpec, machine: Machine) -> Explanation:
    """The verdict on a launch.

    Args:
        outcome: What came of it, with what was recorded.
        setting: What it ran with.
        spec: The study, for its knobs.
        machine: Where it ran.
    """
    case = Case.of(outcome, machine)
    suspects = [*cpu.suspects(case), *waits.suspects(case)]
    ranked = sorted(
        (candidate for candidate in suspects if candidate.share >= LEAST_SHARE),
        key=lambda candidate: -candidate.share,
    )
    rest = cpu.bound(case)
    held = bool(ranked) and ranked[0].share >= min(HELD_SHARE, rest.share)
    suspect, *others = ranked if held else [rest, *ranked]
    idle = case.idle_cores >= cpu.IDLE * case.cores
    return Explanation(
        suspect,
        _certainty(suspect, others, case),
        remedy(suspect.cause, setting, spec, case.views, idle=idle),
        tuple(others),
        _gaps(outcome, case),
        case,
    )


def _certainty(suspect: Suspect, others: list[Suspect], case: Case) -> Certainty:
    if suspect.cause is Cause.UNKNOWN:
        return Certainty.GUESS
    complete = suspect.inside and bool(case.host) and any(rank.columns for rank in case.ranks)
    next_ = others[0].share if others else 0.0
    ahead = suspect.share >= CLEAR_TIMES * next_
    if case.unassigned_cores > cpu.UNASSIGNED_CORES:
        return Certainty.GUESS
    if complete and ahead and suspect.share >= CLEAR_SHARE:
        return Certainty.CLEAR
    return Certainty.LIKELY if complete or ahead else Certainty.GUESS


def _gaps(outcome: Outcome, case: Case) -> tuple[str, ...]:
    """What could not be seen, or not told apart."""
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
    if not case.inside:
        why = "no Python, or too short" if window is None else "a window of a running job"
        gaps.append(
            f"The ranks were not seen from inside ({why}): data loading, exchange and computing"
            " are told apart from outside only."
        )
    return tuple(gaps)
