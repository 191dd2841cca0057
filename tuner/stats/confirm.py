"""Best against reference, launched in turn: is it faster, and by how much? Pure.

A `Rule` says at how many launches the evidence is looked at, and what each look may err. A look
gives an interval of the ratio reference over best:

**By the spread** (`AUTO`, up to 4 pairs). The difference of the mean logarithms of both sides, give
or take `_DEVIATIONS` standard errors. The standard deviation is pooled over both sides and the
repeats of the search, shrunk towards the usual one (:data:`tuner.stats.noise.RUNS`). Two runs of a
side that differ by more than `_OUTLIER` prove nothing: a third one shows which is the outlier, and
that is left out. `python -m benchmarks.coverage` shows what these figures were chosen by.

**By ranks** (from 6 pairs on). Pairs in the order ABBA, which cancels a drift. The interval is that
of Hodges & Lehmann from the exact null distribution of Wilcoxon's signed rank statistic (Hollander,
Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., sections 3.2-3.3) on the logarithms of
the pairs' ratios. It needs the log ratios to be independent and symmetric about the truth, whatever
their spread. The looks by ranks share the error of 5 % (Bonferroni: valid however they hang
together). With n pairs the smallest error is 2 / 2**n: 6 pairs are the fewest that can say anything
at 5 %, and get 1/32 of it.

**At least.** If the search already saw that the reference is far slower, its launches are cut and
only a lower end is claimed: with `AUTO` the shortest launch of the reference over the slowest of
the best. One run of the best is enough, since an outlier makes the claim smaller. From
`ONE_IS_ENOUGH` times on so is one launch of the reference, as outliers are 2 to 3 times slower (as
a whole and up to where it is cut); below that a second one shows whether the first is an outlier.
What the reference was known to take in the search (its time, or how long it ran until it was
stopped) bounds the claim too. A share of it (`_BELOW_KNOWN`) is where the reference is cut, if that
is longer. And over `ONE_IS_ENOUGH` it is a lower end by itself, as no outlier is as slow: if that
keeps enough of the gain, the reference is not launched again, whatever the objective.
If that proves nothing, more of both are launched; if a reference ends before the cut, both run to
their end from then on. With `EXACT` the order is BABABAB, and the bound that of the exact rank-sum
distribution (the same book, sections 4.1-4.3): 4 launches of the best that all lie below 3 of the
reference have the error 1/35. It takes the two to differ by a factor alone; if they differ in
spread too, the error of such a bound can reach 1/8.

Which of the two it is must be decided from the search's data alone. The reference's last launch
there may be the first in turn: it decided this, so the simulations count it like that.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tuner.model import Claim, Finding
from tuner.stats import noise
from tuner.stats.wilcoxon import interval, rank_sum_trimmed

Side = Literal["best", "reference"]


class Look(NamedTuple):
    """The evidence is looked at after this many launches of each side.

    ``error`` is what a look by ranks may err; ``None``: it goes by the spread, or by the cut.
    """

    bests: int
    references: int
    error: float | None = None


@dataclass(frozen=True)
class Rule:
    """When the evidence is looked at; ``cut_above`` is the ratio from which the reference is cut.

    ``least_cut`` and ``most_cut`` are the multiples of the best's time between which that is.
    """

    two_sided: tuple[Look, ...]
    at_least: tuple[Look, ...]
    cut_above: float
    least_cut: float
    most_cut: float


#: At least this multiple of the best's time is a launch of the reference followed for a bound.
LEAST_CUT = 1.5

_BY_RANKS = (Look(6, 6, 1 / 32), Look(10, 10, 0.0075), Look(16, 16, 0.006), Look(24, 24, 0.005))

#: As few launches as the evidence allows.
AUTO = Rule(
    two_sided=(Look(2, 2), Look(3, 3), Look(4, 4), *_BY_RANKS),
    at_least=(Look(1, 1), Look(1, 2), Look(2, 2), Look(3, 3)),
    cut_above=2.0,
    least_cut=LEAST_CUT,
    most_cut=LEAST_CUT,
)

#: By ranks alone. From the second look at a bound on, one run of the best that is an outlier is
#: trimmed (30 of the 1716 orders have a Mann-Whitney count of 6 or less).
EXACT = Rule(
    two_sided=_BY_RANKS,
    at_least=(Look(4, 3, 1 / 35), Look(7, 6, 30 / 1716), Look(10, 9, 0.0039)),
    cut_above=3.0,
    least_cut=3.0,
    most_cut=5.0,
)

_ABBA: tuple[Side, ...] = ("reference", "best", "best", "reference")
_BAB: tuple[Side, ...] = ("best", "reference")

#: The half-width of an interval by the spread, in standard errors: chosen for a coverage of at
#: least 93 % in all simulated cases (`python -m benchmarks.coverage`).
_DEVIATIONS = 6.0

#: A run this many times slower than others of its side is an outlier.
_OUTLIER = 1.5

#: An interval that excludes 1 settles it if its lower end keeps this share of the gain (as
#: logarithms), or if its half-width is below this share of the ratio.
_KEPT, _NARROW = 1 / 3, 0.05

#: From this many pairs on an interval that excludes 1 is taken as it is: more pairs narrow it
#: with their square root only.
_PLENTY = 16

#: No confirmation ends for its cost with fewer pairs.
_FEWEST_PAIRS = 6

#: A gain is claimed if it is proven to be more than this share: less pays for nobody's
#: change of settings, and hosts differ by as much from one day to the next.
WORTH = 0.01

#: The cut lies below what the search saw by this factor at least.
_BELOW_SEEN = 1.7

#: If the search saw this ratio, one launch of the reference is enough for a bound.
ONE_IS_ENOUGH = 3.2

#: The cut may lie as high as what the reference is known to take over this. A stopped launch bounds
#: its own time only: it may itself be slower than is usual.
_BELOW_KNOWN = 1.5

#: At most this many launches of the best are held against what is known of the reference.
_BESTS_AGAINST_KNOWN = 3

#: What ending a launch early takes, s.
_STOP_S = 0.5


@dataclass(frozen=True)
class Run:
    """One launch of the confirmation; if it was cut, ``elapsed_s`` is a bound."""

    side: Side
    elapsed_s: float
    is_cut: bool = False


@dataclass(frozen=True)
class Next:
    """What to launch now, and where it may be cut."""

    side: Side
    limit_s: float | None


@dataclass(frozen=True)
class SearchTimes:
    """What the search knows when the confirmation begins; times in seconds."""

    best_s: float
    reference_s: float
    startup_s: float = 0.0
    budget_s: float = math.inf  # what the confirmation should cost at most
    known_s: float = 0.0  # what the reference took for certain, in its longest launch


def cut(times: SearchTimes, rule: Rule = AUTO) -> float | None:
    """Where the reference is cut, s; ``None``: it runs to its end.

    With `EXACT` as high as the first look may cost: the higher the cut, the more can be claimed.
    Fixed before the first launch: no outlier among those in turn makes the others longer.
    """
    ratio = times.reference_s / times.best_s
    if ratio <= rule.cut_above:
        return None
    bests, references, _ = rule.at_least[0]
    left_s = times.budget_s - (bests + references) * times.startup_s - bests * times.best_s
    affordable = (left_s / references - _STOP_S) / times.best_s
    multiple = min(max(rule.least_cut, min(affordable, rule.most_cut)), ratio / _BELOW_SEEN)
    known_multiple = times.known_s / times.best_s / _BELOW_KNOWN
    if rule is AUTO and known_multiple > rule.most_cut:
        multiple = known_multiple
    return multiple * times.best_s


@dataclass(frozen=True)
class Evidence:
    """Judges launches made in turn.

    Attributes:
        rule: When the evidence is looked at.
        limit_s: That of :func:`cut`; the same for every launch.
        seen_ratio: Reference over best, as the search saw it.
        precision: A gain below this share is not worth having.
        repeats: The logarithms of the times of settings that the search launched several times,
            a group a setting.
        may_go_on: False once the confirmation has cost enough: what is proven at the next
            look is then final, unless the reference is cut (a search that saw such a ratio and
            a look that does not are worth another one). Stopping for any reason keeps the
            coverage.
        to_the_end: A gain that is proven is pursued until the interval is narrow.
        known_s: That of `SearchTimes`.
        known_ratio: The same over the best's time in the search.
        most_s: A launch that was cut there (``--max-time``) is followed no further: it counts as
            if it had ended then, and only a lower end is claimed.
    """

    rule: Rule = AUTO
    limit_s: float | None = None
    seen_ratio: float = 1.0
    precision: float = 0.02
    repeats: Sequence[Sequence[float]] = ()
    may_go_on: bool = True
    to_the_end: bool = False
    known_s: float = 0.0
    known_ratio: float = 0.0
    most_s: float = math.inf

    def judge(self, runs: Sequence[Run]) -> Finding | Next:
        """What the launches so far prove, or which comes next; in the order of the launches.

        The first of them may be the reference's last launch in the search proper.
        """
        # The bound of a launch that might have gone on is no time.
        full = [run for run in runs if not run.is_cut or run.elapsed_s >= self.most_s]
        is_pursued = self.rule is EXACT or self.to_the_end
        if not is_pursued and _keeps_enough(self.known_ratio / ONE_IS_ENOUGH, self.known_ratio):
            step = self._against_known([run.elapsed_s for run in full if run.side == "best"])
            if step is not None:
                return step
        if self.limit_s is None or self.rule is not EXACT:
            finding = self._looked_at(full, self.rule.two_sided)
            if finding is not None:
                return finding
        if self._is_at_least(runs):
            finding = self._looked_at(runs, self._bound_looks, is_cut=True)
            if finding is not None:
                return finding
            side = self._next_for_a_bound(runs)
            if side is not None:
                return Next(side, self.limit_s if side == "reference" else None)
        return Next(_missing(full, _ABBA), None)

    def _against_known(self, best: Sequence[float]) -> Finding | Next | None:
        """What runs of the best prove against the reference's launch in the search.

        ``None``: they are much slower than the search saw the best, so both sides are launched.
        """
        if not best:
            return Next("best", None)
        kept = _without_outliers(best)
        ratio, low = self.known_s / statistics.median(kept), self.known_s / max(kept)
        low /= ONE_IS_ENOUGH
        if low > 1 + WORTH and _keeps_enough(low, ratio):
            return Finding(ratio, low, None, len(best), 1, "faster")
        return Next("best", None) if len(best) < _BESTS_AGAINST_KNOWN else None

    @property
    def _bound_looks(self) -> Sequence[Look]:
        """The looks at a bound."""
        looks = self.rule.at_least
        if self.rule is EXACT or self.seen_ratio >= ONE_IS_ENOUGH:
            return looks
        return [look for look in looks if look.references > 1]

    def _next_for_a_bound(self, runs: Sequence[Run]) -> Side | None:
        """The side of the next launch; ``None``: there is no look left."""
        if self.rule is EXACT:
            return _missing(runs, _BAB)
        sides = Counter(run.side for run in runs)
        for look in self._bound_looks:
            if sides["best"] < look.bests:
                return "best"
            if sides["reference"] < look.references:
                return "reference"
        return None

    def _is_at_least(self, runs: Sequence[Run]) -> bool:
        """Whether the reference is cut: with `AUTO` until a launch of it ended before that."""
        limit_s = self.limit_s
        if limit_s is None or self.rule is EXACT:
            return limit_s is not None
        references = (run for run in runs if run.side == "reference")
        return all(run.is_cut or run.elapsed_s >= limit_s for run in references)

    def _looked_at(
        self, runs: Sequence[Run], looks: Sequence[Look], *, is_cut: bool = False
    ) -> Finding | None:
        """What the last of the looks shows that these runs are enough for, if it is final."""
        sides: tuple[Side, Side] = ("best", "reference")
        times = {side: [run.elapsed_s for run in runs if run.side == side] for side in sides}
        # One side may be ahead, if a launch of the other is found to have ended early.
        reached = [
            look
            for look in looks
            if len(times["best"]) >= look.bests and len(times["reference"]) >= look.references
        ]
        if not reached:
            return None
        look = reached[-1]
        best, reference = times["best"][: look.bests], times["reference"][: look.references]
        finding = self._found(look, reference, best, is_cut=is_cut)
        newest = runs[-1].side
        is_new = len(times[newest]) == (look.bests if newest == "best" else look.references)
        has_enough = not is_cut and look.references >= _FEWEST_PAIRS
        is_last = look == looks[-1] and look.error is not None
        is_final = is_last or (is_new and has_enough and not self.may_go_on)
        return finding if finding is not None and (is_final or self._settled(finding)) else None

    def _found(
        self, look: Look, reference: Sequence[float], best: Sequence[float], *, is_cut: bool
    ) -> Finding | None:
        """What a look shows; ``None`` if the runs of a side disagree."""
        high: float | None = None
        if not is_cut:
            by_logs = self.two_sided(look, reference, best)
            if by_logs is None:
                return None
            ratio, low, high = map(math.exp, by_logs)
            if max(*reference, *best) >= self.most_s:
                high = None
        elif look.error is None:
            kept = _without_outliers(best)
            limit_s = math.inf if self.limit_s is None else self.limit_s
            reference = [min(time_s, limit_s) for time_s in reference]
            ratio, low = min(reference) / statistics.median(kept), min(reference) / max(kept)
        else:
            logs = sorted(math.log(a / b) for a in reference for b in best)
            trimmed = rank_sum_trimmed(len(best), len(reference), look.error)
            assert trimmed is not None, "each look has enough launches for its error"
            ratio, low = math.exp(statistics.median(logs)), math.exp(logs[trimmed])
        claim: Claim = "inconclusive"
        if low > 1 + WORTH:
            claim = "faster"
        elif high is not None and high < 1 + self.precision:
            claim = "slower" if high < 1 else "no gain worth having"
        finding = Finding(ratio, low, high, len(best), len(reference), claim)
        return replace(finding, pairs_missing=_pairs_missing(finding, self.precision))

    def two_sided(
        self, look: Look, reference: Sequence[float], best: Sequence[float]
    ) -> tuple[float, float, float] | None:
        """(estimate, low, high) of the logarithm of the ratio; ``None`` if runs disagree."""
        if look.error is not None:
            pairs = [math.log(a / b) for a, b in zip(reference, best, strict=True)]
            logs = interval(pairs, look.error)
            assert logs is not None, "each look has enough pairs for its error"
            return logs
        sides = [[math.log(each) for each in _without_outliers(s)] for s in (reference, best)]
        if not all(map(_agree, sides)):
            return None
        ratio = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
        sd, _ = noise.pooled((*sides, *filter(_agree, self.repeats)), noise.RUNS)
        half = _DEVIATIONS * sd * math.hypot(*(len(side) ** -0.5 for side in sides))
        return ratio, ratio - half, ratio + half

    def _settled(self, finding: Finding) -> bool:
        """True if more launches would change nothing that matters."""
        if finding.claim != "faster" or finding.high is None:
            return finding.claim != "inconclusive"
        is_narrow = (finding.high - finding.low) / 2 / finding.ratio < _NARROW
        if is_narrow or finding.best_runs >= _PLENTY:
            return True
        has_room = _keeps_enough(finding.low, finding.ratio)
        return has_room and self.rule is not EXACT and not self.to_the_end


def _keeps_enough(low: float, ratio: float) -> bool:
    """Whether a lower end keeps so much of the gain that more launches are not worth it."""
    return ratio > 1 and math.log(low) >= _KEPT * math.log(ratio)


def _pairs_missing(finding: Finding, precision: float) -> int | None:
    """How many pairs more are likely to tell.

    The half-width falls with the square root of the pairs, and must reach the nearer of the two:
    a gain that is worth claiming, or none that is worth having.
    """
    if finding.claim != "inconclusive":
        return None
    if finding.high is None:
        return _FEWEST_PAIRS
    pairs, ratio = finding.best_runs, math.log(finding.ratio)
    half = (math.log(finding.high) - math.log(finding.low)) / 2
    room = max(ratio - math.log1p(WORTH), math.log1p(precision) - ratio)
    most, *_ = _BY_RANKS[-1]
    pairs_needed = pairs * (half / room) ** 2
    return max(1, math.ceil(pairs_needed) - pairs) if pairs_needed <= most else None


def _missing(runs: Sequence[Run], order: Sequence[Side]) -> Side:
    """The first side in the order that the runs do not cover."""
    left = Counter(run.side for run in runs)
    for side in itertools.cycle(order):
        if left[side] == 0:
            break
        left[side] -= 1
    return side


def _agree(logs: Sequence[float]) -> bool:
    """False if one of the runs must be an outlier."""
    return max(logs) - min(logs) <= math.log(_OUTLIER)


def _without_outliers(times: Sequence[float]) -> list[float]:
    """Of three runs and more those that are not far slower than their median."""
    if len(times) < 3:
        return list(times)
    most = _OUTLIER * statistics.median(times)
    return [each for each in times if each <= most]
