"""The confirmation: the best setting is compared with the baseline. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tuner.launch.clocks import MOST_TIMES
from tuner.model import Conclusion, Failed, Finding, LaunchRecord, Setting
from tuner.stats import estimates
from tuner.stats.ranks import LOOKS, judge_by_ranks
from tuner.study import pairing
from tuner.study.history import History
from tuner.study.pairing import Ratios

#: The confirmation may cost this share of the search; then the next pair is the last.
COST_SHARE = 0.5

#: No comparison ends for its cost with fewer pairs.
FEWEST_PAIRS = 10

#: This many launches of one side may fail before it is said to fail.
FAILURES = 2


@dataclass(frozen=True)
class Confirmation:
    """What the best is compared with, and what came of it or is next.

    ``best`` is the fastest other setting if the search calls the reference best. ``failure`` says
    why the baseline fails, ``best_failed`` that the best did when it was launched again. ``next``
    is what to launch: one setting, or two side by side, of which the first begins; nothing, once
    nothing is left. ``left_s`` is how long what is left to launch will take, if every pair takes
    what both sides are known to take; ``None``: that is not known. ``standing`` is what the usual
    rule has proven, if ``--confirm more`` or ``exact`` asks for more pairs. ``why_in_turn`` says
    why the two are not launched side by side; empty if they are, or if the user did not want it.
    """

    best: Setting
    reference: Setting | None
    failure: Failed | None = None
    finding: Finding | None = None
    best_failed: Failed | None = None
    next: tuple[Setting, ...] = ()
    left_s: float | None = 0.0
    standing: Finding | None = None
    why_in_turn: str = ""

    def other_side(self, setting: Setting) -> Setting | None:
        """Return the other one of two settings that are launched in turn; ``None``: it is not."""
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
    if reference == best and failure is None:
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
    return _compared(history, Confirmation(best, reference, failure))


def _compared(history: History, so_far: Confirmation) -> Confirmation:
    """Return where the comparison of two settings stands."""
    best, reference = so_far.best, so_far.reference
    assert reference is not None
    why_in_turn = pairing.why_in_turn(history, best, reference)
    is_in_turn = why_in_turn is not None
    so_far = replace(so_far, why_in_turn=why_in_turn or "")
    ratios = pairing.ratios(history, best, reference, in_turn=is_in_turn)
    finding = _judge(history, ratios, is_last=_is_costly(history, len(ratios.logs)))
    if finding is not None:
        return replace(so_far, finding=finding)
    standing = None
    if history.spec.confirm in {"more", "exact"}:
        counts = range(len(ratios.logs), 0, -1)
        usual = (ratios.first(count).judge(history.spec.precision) for count in counts)
        standing = next(filter(None, usual), None)
    step = pairing.next_in_turn(history, best, reference) if is_in_turn else (best, reference)
    if not is_in_turn and len(ratios.logs) % 2:
        step = step[::-1]
    return replace(so_far, next=step, left_s=_left_s(history, so_far, ratios), standing=standing)


def _judge(history: History, ratios: Ratios, *, is_last: bool = False) -> Finding | None:
    """Return what pairs prove by the rule that the user has asked for."""
    if history.spec.confirm == "exact":
        return judge_by_ranks(ratios.logs, history.spec.precision, at_least=ratios.at_least)
    finding = ratios.judge(history.spec.precision, is_last=is_last)
    if history.spec.confirm != "more" or finding is None:
        return finding
    is_narrow = finding.high is not None and finding.high / finding.low < 1 + history.spec.precision
    return finding if is_narrow or len(ratios.logs) >= ratios.rule.most_pairs else None


def _is_costly(history: History, count: int) -> bool:
    """Return whether another pair would make the confirmation cost too much of the search."""
    if history.spec.confirm == "more" or count < FEWEST_PAIRS:
        return False
    return confirm_s(history.confirming) * (count + 1) / count > COST_SHARE * search_s(
        history.searched
    )


def _left_s(history: History, so_far: Confirmation, ratios: Ratios) -> float | None:
    """Return how long the comparison goes on if each pair comes to what was seen so far."""
    assert so_far.reference is not None
    best = pairing.typical(history, so_far.best)
    reference = pairing.typical(history, so_far.reference)
    if best is None or reference is None:
        return None
    expected = (
        statistics.fmean(ratios.logs) if ratios.logs else math.log(reference.cost / best.cost)
    )
    most = max(LOOKS) if history.spec.confirm == "exact" else ratios.rule.most_pairs
    forecast = ratios
    while len(forecast.logs) < most and _judge(history, forecast) is None:
        forecast = replace(forecast, logs=(*forecast.logs, expected))
    has_log = history.spec.objective.clock in {"elapsed", "steady"}
    longest_s = best.wall_s * (1 if has_log else MOST_TIMES)
    pair_s = best.wall_s + min(reference.wall_s, longest_s)
    return (len(forecast.logs) - len(ratios.logs)) * pair_s


def _fastest_other(history: History, best: Setting) -> Setting:
    """The fastest other setting that came to its end; the same if there is none."""
    measurements = estimates.measurements(history.searched, history.pooling.canonical)
    other = estimates.best(
        m for m in measurements if m.setting != best and history.contains(m.setting)
    )
    return best if other is None else other.setting


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
