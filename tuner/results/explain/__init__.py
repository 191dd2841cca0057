"""Names the one thing that held a launch back, from what was recorded of it (pure).

Every rule says how large a share of the ranks' time its cause explains; the largest is the
verdict. docs/explain.md has the rules and their thresholds.
"""

from __future__ import annotations

from tuner.model import Machine, Outcome, Setting, StudySpec, Telemetry
from tuner.results.explain import cpu, waits
from tuner.results.explain.case import Case, Figures, figures
from tuner.results.explain.cause import Cause, Certainty, Explanation, Remedy, Suspect, remedy
from tuner.results.explain.cpu import bound
from tuner.search.throughput import startup_s

__all__ = [
    "Cause",
    "Certainty",
    "Explanation",
    "Figures",
    "Remedy",
    "Suspect",
    "case_of",
    "explain",
]

#: What explains less of the ranks' time does not hold a run back: a knob would win no more, and
#: on a host that stands still at times ranks that only compute wait for each other as long.
HELD_SHARE = 0.15
#: What explains less is not spoken of.
LEAST_SHARE = 0.1

#: A verdict is clear where it explains so much, and so many times what the next one does.
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
    telemetry = outcome.telemetry or Telemetry(gaps=(_nothing_recorded(outcome),))
    case = case_of(outcome, machine)
    suspects = [*cpu.suspects(case), *waits.suspects(case)]
    ranked = sorted(
        (each for each in suspects if each.share >= LEAST_SHARE), key=lambda each: -each.share
    )
    rest = bound(case)
    held = bool(ranked) and ranked[0].share >= min(HELD_SHARE, rest.share)
    found, *others = ranked if held else [rest, *ranked]
    idle = case.idle_cores >= cpu.IDLE * case.cores
    return Explanation(
        found,
        _certainty(found, others, case),
        remedy(found.cause, setting, spec, case.views, idle=idle),
        tuple(others),
        telemetry.gaps + _unseen(case, in_window=outcome.window is not None),
    )


def _nothing_recorded(outcome: Outcome) -> str:
    if outcome.window is None:
        return "Nothing was recorded of this launch."
    return (
        f"It was measured in a window of job {outcome.window.job}, of which nothing was recorded:"
        " launches of its own (`tune --live off`) show more."
    )


def case_of(outcome: Outcome, machine: Machine) -> Case:
    """What the rules look at."""
    seen = figures(outcome.telemetry or Telemetry(), startup_s(outcome.progress) or 0.0)
    return Case(seen, machine.cores, outcome.load, outcome.observation.ranks)


def _certainty(found: Suspect, others: list[Suspect], case: Case) -> Certainty:
    if found.cause is Cause.UNKNOWN:
        return Certainty.GUESS
    seen = case.figures
    complete = found.inside and bool(seen.host) and any(rank.columns for rank in seen.ranks)
    next_ = others[0].share if others else 0.0
    ahead = found.share >= CLEAR_TIMES * next_
    if case.unassigned_cores > cpu.UNASSIGNED_CORES:
        return Certainty.GUESS
    if complete and ahead and found.share >= CLEAR_SHARE:
        return Certainty.CLEAR
    return Certainty.LIKELY if complete or ahead else Certainty.GUESS


def _unseen(case: Case, *, in_window: bool) -> tuple[str, ...]:
    """What could not be told apart, for want of a view from inside or of a rank's processes."""
    gaps: tuple[str, ...] = ()
    if case.unassigned_cores > cpu.UNASSIGNED_CORES:
        gaps += (
            f"{case.unassigned_cores:.1f} of the {case.busy_cores:.1f} cores that were busy belong"
            " to no rank that was seen: host and ranks do not add up.",
        )
    if case.figures.inside:
        return gaps
    why = "a window of a running job" if in_window else "no Python, or too short"
    return (
        *gaps,
        f"The ranks were not seen from inside ({why}): data loading, exchange and computing are"
        " told apart from outside only.",
    )
