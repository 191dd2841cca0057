"""The confirmation: the best setting is compared with the baseline. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuner.launch.clocks import MOST_TIMES
from tuner.model import Conclusion, Failed, Finding, LaunchRecord, Setting
from tuner.stats.ranks import LOOKS, judge_by_ranks
from tuner.study import pairing
from tuner.study.history import History
from tuner.study.pairing import Pairs

#: The confirmation may cost this share of the search; then the next pair is the last.
COST_SHARE = 0.5

#: No comparison ends for its cost with fewer pairs.
FEWEST_PAIRS = 10

#: This many launches of one side may fail before it is said to fail.
FAILURES = 2


@dataclass(frozen=True)
class Confirmation:
    """Where the comparison of the best setting stands: with what, its result, or what is next."""

    best: Setting  # the fastest other setting if the search calls the baseline best
    reference: Setting | None = None  # the baseline; None: it fails, or was not launched
    failure: Failed | None = None  # of the baseline
    finding: Finding | None = None
    best_failed: Failed | None = None  # how the best failed when it was launched again
    next: tuple[Setting, ...] = ()  # one setting, or two side by side, of which the first begins
    left_s: float | None = 0.0  # how long the launches to come take; None: that is not known
    proven: Finding | None = None  # what is proven already, while the interval is to be narrower
    why_in_turn: str = ""  # empty if they are launched side by side, or the user asked for it

    def other_side(self, setting: Setting) -> Setting | None:
        """Return what a setting is compared with in turn; ``None``: it is not compared so."""
        if len(self.next) != 1 or setting not in {self.best, self.reference}:
            return None
        return self.reference if setting == self.best else self.best

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
        """Return what is handed over: the baseline, unless it fails or something faster is proven.

        A baseline that leaves out what the user fixed cannot be handed over.
        """
        conclusion = self.conclusion
        keeps = conclusion and conclusion.keeps_baseline and history.spec.fixed.is_baseline
        return history.default if keeps else self.best


def confirmation(history: History, best: Setting) -> Confirmation:
    """Return where the comparison of the search's best with the baseline stands."""
    searched, baseline = history.searched, history.default
    launched = history.of(searched, baseline)
    failed = _failures(launched)
    never_worked = failed[0] if failed and len(failed) == len(launched) else None
    if failure := never_worked or _failure_again(history, baseline):
        return Confirmation(best, failure=failure)
    if baseline == best:
        runner_up = history.fastest(lambda s: s != best and history.contains(s))
        best = best if runner_up is None else runner_up.setting
    # A setting whose launches were all stopped on their way cannot win.
    is_ruled_out = not any(record.outcome.samples for record in history.of(searched, best))
    if baseline == best or is_ruled_out:
        return Confirmation(best, baseline)
    if best_failed := _failure_again(history, best):
        return Confirmation(best, baseline, best_failed=best_failed)
    return _compared(history, Confirmation(best, baseline)) if launched else Confirmation(best)


def _compared(history: History, so_far: Confirmation) -> Confirmation:
    """Return where the comparison of the best with the reference stands."""
    best, reference = so_far.best, so_far.reference
    assert reference is not None
    why_in_turn = pairing.why_settings_in_turn(history, best, reference)
    so_far = replace(so_far, why_in_turn=why_in_turn or "")
    pairs = pairing.compared(history, best, reference, in_turn=why_in_turn is not None)
    count = len(pairs.launches)
    if (finding := _judge(history, pairs, is_last=_is_costly(history, count))) is not None:
        return replace(so_far, finding=finding)
    if history.spec.confirm in {"more", "exact"}:
        by_usual_rule = (pairs.first(n).judge(history.spec.precision) for n in range(count, 0, -1))
        proven = next(filter(None, by_usual_rule), None)
    else:
        last = pairs.judge(history.spec.precision, is_last=True)
        proven = last if last is not None and last.claim == "faster" else None
    # Each of the two begins every other pair.
    launches: tuple[Setting, ...] = (reference, best) if count % 2 else (best, reference)
    if why_in_turn is not None:
        launches = (pairing.next_in_turn(history, best, reference),)
    return replace(so_far, next=launches, left_s=_left_s(history, so_far, pairs), proven=proven)


def _judge(
    history: History, pairs: Pairs, *, is_last: bool = False, expected: Sequence[float] = ()
) -> Finding | None:
    """Return what pairs prove by the rule that the user has asked for."""
    precision = history.spec.precision
    if history.spec.confirm == "exact":
        at_least = any(pairing.is_bound(reference) for reference, _ in pairs.launches)
        return judge_by_ranks([*pairs.logs, *expected], precision, at_least=at_least)
    finding = pairs.judge(precision, is_last=is_last, expected=expected)
    if history.spec.confirm != "more" or finding is None:
        return finding
    is_narrow = finding.high is not None and finding.high / finding.low < 1 + precision
    is_enough = len(pairs.launches) + len(expected) >= pairs.rule.most_pairs
    return finding if is_narrow or is_enough else None


def _is_costly(history: History, count: int) -> bool:
    """Return whether another pair would make the confirmation cost too much of the search."""
    if history.spec.confirm == "more" or count < FEWEST_PAIRS:
        return False
    cost_s = confirm_s(history.confirming) * (count + 1) / count
    return cost_s > COST_SHARE * search_s(history.searched)


def _left_s(history: History, so_far: Confirmation, pairs: Pairs) -> float | None:
    """Return how long the comparison goes on if further pairs show the mean of those so far."""
    assert so_far.reference is not None
    best = pairing.typical(history, so_far.best)
    reference = pairing.typical(history, so_far.reference)
    if best is None or reference is None:
        return None
    logs = pairs.logs or [math.log(reference.cost / best.cost)]
    most_pairs = max(LOOKS) if history.spec.confirm == "exact" else pairs.rule.most_pairs
    expected: list[float] = []
    while (
        len(pairs.launches) + len(expected) < most_pairs
        and _judge(history, pairs, expected=expected) is None
    ):
        expected.append(statistics.fmean(logs))
    has_log = history.spec.objective.clock in {"elapsed", "steady"}
    longest_s = best.wall_s * (1 if has_log else MOST_TIMES)  # then `once_compared` ends it
    return len(expected) * (best.wall_s + min(reference.wall_s, longest_s))


def search_s(records: Iterable[LaunchRecord]) -> float:
    """Return how long those of the launches took, in sum, that were not made to confirm."""
    return sum(r.outcome.wall_s for r in records if r.purpose.stage.counts_for_budget)


def confirm_s(records: Iterable[LaunchRecord]) -> float:
    """Return how long those of the launches took, in sum, that were made to confirm."""
    return sum(r.outcome.wall_s for r in records if not r.purpose.stage.counts_for_budget)


def _failures(records: Iterable[LaunchRecord]) -> list[Failed]:
    endings = (record.outcome.ending for record in records)
    return [ending for ending in endings if isinstance(ending, Failed)]


def _failure_again(history: History, setting: Setting) -> Failed | None:
    """Return why a setting that had worked is said to fail: in the confirmation it failed twice."""
    failed = _failures(history.of(history.confirming, setting))
    return failed[0] if len(failed) >= FAILURES else None
