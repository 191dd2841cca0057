"""The confirmation: the best setting is compared with the baseline. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.model import (
    Conclusion,
    Failed,
    Finding,
    Finished,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
)
from tuner.search.throughput import startup_s
from tuner.stats import confirm, estimates, pairs
from tuner.stats.confirm import AUTO, EXACT, LEAST_CUT, Evidence, Next, Run, SearchTimes, Side
from tuner.study import pairing
from tuner.study.history import History
from tuner.study.stopping_rules import max_cost

#: The confirmation may cost this share of the search; then the next look by ranks is the last.
COST_SHARE = 0.5

#: What the confirmation has cost at the next look, in multiples of what it has at this one.
_NEXT_LOOK = 1.6

#: How long the confirmation takes is told for this many more launches at most.
_FORECAST = 12

#: No comparison side by side ends for its cost with fewer pairs.
FEWEST_PAIRS = 6

#: This many launches of one side may fail before it is said to fail.
FAILURES = 2


@dataclass(frozen=True)
class Confirmation:
    """What the best is compared with, and what came of it or is next.

    ``best`` is the fastest other setting if the search calls the reference best. ``failure`` says
    why the baseline fails, ``best_failed`` that the best did when it was launched again. ``next``
    is what to launch: one setting, which may be cut at ``limit_s``, or two side by side, of which
    the first begins; nothing, once nothing is left. ``left_s`` is how long what is left to launch
    will take, if every launch takes what its side is known to take; ``None``: that is not known.
    ``standing`` is what fewer launches had proven by the usual rule, if ``--confirm more`` or
    ``exact`` asks for others. ``why_in_turn`` says why the two are not launched side by side; empty
    if they are, or if the user did not want it.
    """

    best: Setting
    reference: Setting | None
    failure: Failed | None = None
    finding: Finding | None = None
    best_failed: Failed | None = None
    next: tuple[Setting, ...] = ()
    limit_s: float | None = None
    left_s: float | None = 0.0
    standing: Finding | None = None
    why_in_turn: str = ""

    @property
    def conclusion(self) -> Conclusion | None:
        """The conclusion once nothing is next; ``None``: there is nothing to compare with."""
        if self.failure is not None:
            return Conclusion.BASELINE_FAILS
        if self.reference is None:
            return None
        claim = "slower" if self.finding is None or self.best_failed else self.finding.claim
        conclusions = {"faster": Conclusion.FASTER, "inconclusive": Conclusion.INCONCLUSIVE}
        return conclusions.get(claim, Conclusion.NO_GAIN)

    def export(self, history: History) -> Setting:
        """What is handed over: the baseline, unless it fails or something faster is confirmed.

        A baseline that leaves out what the user fixed cannot be handed over.
        """
        conclusion = self.conclusion
        if conclusion and conclusion.keeps_baseline and history.spec.fixed.is_baseline:
            return history.default
        slower = self.finding is not None and self.finding.claim == "slower"
        if (slower or self.best_failed) and self.reference not in (None, history.default):
            assert self.reference is not None
            return self.reference
        return self.best


def confirmation(history: History, best: Setting) -> Confirmation:
    """Return where the comparison of the search's best with the baseline stands."""
    canonical, searched = history.pooling.canonical, history.searched
    launched = history.of(searched, history.default)
    failed = _failures(launched)
    always = failed[0] if failed and len(failed) == len(launched) else None
    failure = always or _broken(history, history.default)
    reference: Setting | None = history.default
    if failure is not None:  # the first setting that worked stands in
        worked = (canonical(record.setting) for record in searched if record.outcome.samples)
        reference = next(
            (
                setting
                for setting in worked
                if setting != history.default
                and history.contains(setting)
                and _broken(history, setting) is None
            ),
            None,
        )
    is_search_best = reference == best and failure is None
    if is_search_best:
        best = _fastest_other(history, best)
    # Stopped on its way, it could not win.
    ruled_out = not any(record.outcome.samples for record in history.of(searched, best))
    if reference is None or reference == best or ruled_out:
        return Confirmation(best, reference, failure)
    broken = _broken(history, best)
    if broken is not None:
        return Confirmation(best, reference, failure, best_failed=broken)
    if not history.of(searched, reference):
        return Confirmation(best, None, failure)
    so_far = Confirmation(best, reference, failure)
    best_s, reference_s = (_typical_s(history.of(searched, s)) for s in (best, reference))
    ratio = 1.0 if best_s is None or reference_s is None else reference_s / best_s
    why_in_turn = pairing.why_in_turn(history, best, reference, ratio)
    if why_in_turn is None:
        return _by_pairs(history, so_far, ratio)
    so_far = replace(so_far, why_in_turn=why_in_turn)
    return _in_turn(history, so_far, best_s, reference_s, is_search_best=is_search_best)


def _in_turn(
    history: History,
    so_far: Confirmation,
    best_s: float | None,
    reference_s: float | None,
    *,
    is_search_best: bool,
) -> Confirmation:
    """Return where the comparison stands, by launches in turn.

    Args:
        history: The study so far.
        so_far: What is compared.
        best_s: What the search saw of the best, as a cost; ``None``: nothing.
        reference_s: The same of the reference.
        is_search_best: The reference is what the search calls best.
    """
    assert so_far.reference is not None
    best, reference = so_far.best, so_far.reference
    canonical, searched = history.pooling.canonical, history.searched
    # Warm-ups do not count: one more of a resumed study moves no cut.
    budget_s = COST_SHARE * search_s(searched)
    ratio, times = 1.0, None
    if best_s is not None and reference_s is not None:
        known_s = _known_s(history, reference)
        times = SearchTimes(best_s, reference_s, budget_s=budget_s, known_s=known_s)
        ratio = reference_s / best_s
    most_s = max_cost(history.spec, history.expected_iterations(reference))
    sides: dict[Setting, Side] = {best: "best", reference: "reference"}
    # If the search proper ended with the baseline, that launch is the first in turn; unless it is a
    # surface's setting that the search calls best: then it was chosen for its time.
    last = history.explored[-1]
    is_first = (
        last.purpose is Purpose.BASELINE
        and last.job is None
        and last.machine.hostname == history.spec.machine.hostname
        and not is_search_best
    )

    def evidence_by(how: str) -> tuple[Evidence, list[Run]]:
        """The evidence by the rule of ``--confirm how``."""
        rule, limit_s = EXACT if how == "exact" else AUTO, None
        if times is not None and how != "more":
            limit_s = _cut_s(history, times, reference, rule)
        # What says where the reference is cut cannot be cut there itself.
        is_raised = times is not None and limit_s is not None and limit_s > LEAST_CUT * times.best_s
        in_turn = [r for r in history.confirming if r.outcome.side_by_side is None]
        if rule is AUTO and is_first and not is_raised:
            in_turn.insert(0, last)
        evidence = Evidence(
            rule,
            limit_s,
            ratio,
            history.spec.precision,
            _repeats(history),
            may_go_on=how == "more" or _NEXT_LOOK * confirm_s(history.confirming) < budget_s,
            to_the_end=how == "more",
            known_s=times.known_s if times else 0.0,
            known_ratio=times.known_s / times.best_s if times else 0.0,
            most_s=math.inf if most_s is None else most_s,
        )
        return evidence, _runs(in_turn, sides, canonical)

    evidence, runs = evidence_by(history.spec.confirm)
    step = evidence.judge(runs)
    if isinstance(step, Finding):
        return replace(so_far, finding=step)
    standing, left_s = None, None
    if history.spec.confirm in {"more", "exact"}:
        standing = _last_finding(*evidence_by("auto"))
    if times is not None:
        left_s = _left_s(history, evidence, runs, {"best": best, "reference": reference}, times)
    setting = best if step.side == "best" else reference
    return replace(so_far, next=(setting,), limit_s=step.limit_s, left_s=left_s, standing=standing)


def _by_pairs(history: History, so_far: Confirmation, search_ratio: float) -> Confirmation:
    """Return where the comparison stands, by launches side by side.

    Args:
        history: The study so far.
        so_far: What is compared.
        search_ratio: What the ratio is presumed to be before there is a pair.
    """
    budget_s = COST_SHARE * search_s(history.searched)
    assert so_far.reference is not None
    best, reference, precision = so_far.best, so_far.reference, history.spec.precision
    ratios = pairing.log_ratios(history, best, reference)
    goes_on = history.spec.confirm == "more"
    is_costly = confirm_s(history.confirming) * (len(ratios) + 1) > budget_s * len(ratios)
    is_last = not goes_on and len(ratios) >= FEWEST_PAIRS and is_costly
    finding, standing = pairs.judge(ratios, precision, is_last=is_last), None
    if goes_on and len(ratios) < pairs.MOST_PAIRS:
        finding, standing = None, finding
    if finding is not None:
        return replace(so_far, finding=finding)
    left = [*ratios]
    while len(left) < pairs.MOST_PAIRS and (goes_on or pairs.judge(left, precision) is None):
        left.append(statistics.fmean(ratios) if ratios else math.log(search_ratio))
    walls_s = [_wall_s(history, setting) for setting in (best, reference)]
    left_s = None
    if all(walls_s):
        # The longer one ends once its pace is known.
        left_s = (len(left) - len(ratios)) * 2 * min(filter(None, walls_s))
    order = (best, reference) if len(ratios) % 2 == 0 else (reference, best)
    return replace(so_far, next=order, left_s=left_s, standing=standing)


def _wall_s(history: History, setting: Setting) -> float | None:
    """Return how long launches of a setting take, by those that were not cut; ``None``: unknown."""
    records = history.of(history.valid, setting)
    walls = [r.outcome.wall_s for r in records if r.job is None and r.outcome.samples]
    return statistics.median(walls) if walls else None


def _last_finding(evidence: Evidence, runs: Sequence[Run]) -> Finding | None:
    """Return what was proven last before more launches were made; ``None``: nothing was."""
    ended = replace(evidence, may_go_on=False)
    steps = (ended.judge(runs[:number]) for number in range(len(runs), 0, -1))
    return next((step for step in steps if isinstance(step, Finding)), None)


def _left_s(
    history: History,
    evidence: Evidence,
    runs: Sequence[Run],
    settings: Mapping[Side, Setting],
    times: SearchTimes,
) -> float | None:
    """How long the confirmation goes on if each launch comes to what the search saw of its side."""
    figures: dict[Side, float] = {"best": times.best_s, "reference": times.reference_s}
    walls_s: dict[Side, float] = {}
    for side, setting in settings.items():
        own = [record for record in history.of(history.valid, setting) if record.job is None]
        whole = [record.outcome.wall_s for record in own if record.outcome.samples]
        cut = [
            record.outcome.wall_s * figures[side] / record.outcome.ending.bound_s
            for record in own
            if isinstance(record.outcome.ending, Stopped) and record.outcome.ending.bound_s > 0
        ]
        if not whole and not cut:
            return None
        walls_s[side] = statistics.median(whole or cut)
    forecast, left_s = list(runs), 0.0
    while isinstance(step := evidence.judge(forecast), Next):
        if len(forecast) == len(runs) + _FORECAST:
            break
        is_cut = step.limit_s is not None and figures[step.side] > step.limit_s
        figure = step.limit_s if is_cut and step.limit_s is not None else figures[step.side]
        forecast.append(Run(step.side, figure, is_cut))
        left_s += walls_s[step.side] * figure / figures[step.side]
    return left_s


def _runs(
    records: Iterable[LaunchRecord],
    sides: Mapping[Setting, Side],
    canonical: Callable[[Setting], Setting],
) -> list[Run]:
    """The launches as evidence; those that failed, or were stopped before a log, are none."""
    runs = []
    for record in records:
        side, ending = sides.get(canonical(record.setting)), record.outcome.ending
        if side is not None and isinstance(ending, Finished):
            runs.append(Run(side, ending.elapsed_s))
        elif side is not None and isinstance(ending, Stopped) and ending.bound_s > 0:
            runs.append(Run(side, ending.bound_s, is_cut=True))
    return runs


def _fastest_other(history: History, best: Setting) -> Setting:
    """The fastest other setting that came to its end; the same if there is none."""
    measurements = estimates.measurements(history.searched, history.pooling.canonical)
    other = estimates.best(
        m for m in measurements if m.setting != best and history.contains(m.setting)
    )
    return best if other is None else other.setting


def _repeats(history: History) -> list[list[float]]:
    """The logarithms of the times of the settings that the search launched several times."""
    groups: dict[Setting, list[float]] = {}
    for record in history.searched:
        ending = record.outcome.ending
        if record.job is None and isinstance(ending, Finished) and ending.elapsed_s > 0:
            group = groups.setdefault(history.pooling.canonical(record.setting), [])
            group.append(math.log(ending.elapsed_s))
    return [group for group in groups.values() if len(group) > 1]


def search_s(records: Iterable[LaunchRecord]) -> float:
    """Return how long the launches took that were not made to confirm."""
    return sum(r.outcome.wall_s for r in records if r.purpose.stage.counts_for_budget)


def confirm_s(records: Iterable[LaunchRecord]) -> float:
    """Return how long the launches took that were made to confirm."""
    return sum(r.outcome.wall_s for r in records if not r.purpose.stage.counts_for_budget)


def _failures(records: Iterable[LaunchRecord]) -> list[Failed]:
    endings = (record.outcome.ending for record in records)
    return [ending for ending in endings if isinstance(ending, Failed)]


def _broken(history: History, setting: Setting) -> Failed | None:
    """Why a setting that worked is said to fail: it did so again in the confirmation."""
    failed = _failures(history.of(history.confirming, setting))
    return failed[0] if len(failed) >= FAILURES else None


def _cut_s(
    history: History, times: SearchTimes, reference: Setting, rule: confirm.Rule
) -> float | None:
    """Where the reference is cut, as a figure; ``None``: it runs to its end.

    What the launches may cost is in seconds of the host: of a steady state its figure times the
    iterations of a launch.
    """
    clock, iterations = history.spec.objective.clock, history.expected_iterations(reference)
    if clock == "none" or (clock == "steady" and not iterations):
        return None
    run = iterations if clock == "steady" and iterations else 1
    startups = [
        seconds
        for record in history.searched
        if (seconds := startup_s(record.outcome.progress)) is not None
    ]
    limit_s = confirm.cut(
        replace(
            times,
            best_s=times.best_s * run,
            reference_s=times.reference_s * run,
            known_s=times.known_s * run,
            startup_s=statistics.median(startups) if startups else 0.0,
        ),
        rule,
    )
    return None if limit_s is None else limit_s / run


def _known_s(history: History, setting: Setting) -> float:
    """What a setting took for certain in launches of its own in the search.

    The shortest run to the end, else how long the longest launch ran until it was stopped.
    """
    endings = [
        record.outcome.ending
        for record in history.of(history.searched, setting)
        if record.job is None and record.machine.hostname == history.spec.machine.hostname
    ]
    times = [ending.elapsed_s for ending in endings if isinstance(ending, Finished)]
    bounds = [ending.bound_s for ending in endings if isinstance(ending, Stopped)]
    return min(times) if times else max(bounds, default=0.0)


def _typical_s(records: Sequence[LaunchRecord]) -> float | None:
    """The median of the runs, else of the projections.

    ``None`` if it only failed, or was stopped before its log told anything.
    """
    times = [sample.elapsed_s for record in records for sample in record.outcome.samples]
    if not times:
        endings = (record.outcome.ending for record in records)
        stopped = [ending for ending in endings if isinstance(ending, Stopped)]
        times = [ending.projection_s for ending in stopped if ending.bound_s > 0]
    return statistics.median(times) if times else None
