"""Best against reference, launched in turn: is it faster, and by how much? Pure.

The looks are fixed in advance and the error of 5 % is shared out among them (Bonferroni: valid
however the looks hang together), so stopping at any look, for any reason, keeps the coverage:
the chance that *any* of the intervals misses the truth is at most 5 %.

**Interval.** Pairs in the order ABBA, which cancels a drift. The interval is that of Hodges &
Lehmann from the exact null distribution of Wilcoxon's signed rank statistic (Hollander, Wolfe &
Chicken, Nonparametric Statistical Methods, 3rd ed., sections 3.2-3.3) on the logarithms of the
pairs' ratios. It needs the log ratios to be independent and symmetric about the truth, whatever
their spread. With n pairs its smallest error is 2 / 2**n: 6 pairs are the fewest that can say
anything at 5 %, and get 1/32 of it; the later looks share the rest.

**At least.** If the search already saw that the reference is several times slower, its
launches are cut at a multiple of the best's time and only the lower end is claimed. The order is
BABABAB and the bound that of the exact rank-sum distribution (the same book, sections 4.1-4.3): 4
launches of the best that all lie below 3 of the reference have the error 1/35. It takes the two to
differ by a factor alone; if they differ in spread too, the error of such a bound can reach 1/8.
That is why the cut lies well below what the search saw: the claim cannot exceed the cut, so it is
wrong only if the search was, by that factor, and the launches in turn are as well.

Which of the two it is must be decided before the first launch, from the search's data alone.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.model import Claim, Finding
from tuner.stats.wilcoxon import interval, rank_sum_trimmed

Side = Literal["best", "reference"]

#: (launches of the best, of the reference, the error this look may spend); together at most 5 %.
Looks = tuple[tuple[int, int, float], ...]
TWO_SIDED: Looks = ((6, 6, 1 / 32), (10, 10, 0.0075), (16, 16, 0.006), (24, 24, 0.005))
#: The same if only the lower end is claimed; from the second look on one run of the best that
#: is an outlier is trimmed (30 of the 1716 orders have a Mann-Whitney count of 6 or less).
AT_LEAST: Looks = ((4, 3, 1 / 35), (7, 6, 30 / 1716), (10, 9, 0.0039))

_ABBA: tuple[Side, ...] = ("reference", "best", "best", "reference")
_BAB: tuple[Side, ...] = ("best", "reference")

#: From this many pairs on an interval that excludes 1 is taken as it is: more pairs narrow it
#: with their square root only.
_PLENTY = 16

#: A gain is claimed if it is proven to be more than this share: less pays for nobody's
#: change of settings, and hosts differ by as much from one day to the next.
WORTH = 0.01

#: Below this ratio of what the search saw nothing is launched: giving up claims nothing.
HOPELESS = 0.95

#: The reference is cut if the search saw a ratio above the first; the multiple lies between
#: the next two (one run of the best that is two to three times slower, as happens on shared
#: machines, then hides nothing), and below the search's ratio by the last factor at least.
_CUT_ABOVE, _LEAST_CUT, _MOST_CUT, _BELOW_SEEN = 3.0, 3.0, 5.0, 1.7

#: What ending a launch early takes, s.
_STOP_S = 0.5


@dataclass(frozen=True)
class Run:
    """One launch of the confirmation; if the reference was cut, ``elapsed_s`` is a bound."""

    side: Side
    elapsed_s: float


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


def cut(seen: SearchTimes) -> float | None:
    """Where the reference is cut, s; ``None``: it runs to its end.

    As high as the first look may cost: the higher the cut, the more can be claimed. Fixed
    before the first launch: no outlier among those in turn makes the others longer.
    """
    ratio = seen.reference_s / seen.best_s
    if ratio <= _CUT_ABOVE:
        return None
    bests, references, _ = AT_LEAST[0]
    left_s = seen.budget_s - (bests + references) * seen.startup_s - bests * seen.best_s
    affordable = (left_s / references - _STOP_S) / seen.best_s
    multiple = min(max(_LEAST_CUT, min(affordable, _MOST_CUT)), ratio / _BELOW_SEEN)
    return multiple * seen.best_s


def judge(
    runs: Sequence[Run],
    *,
    limit_s: float | None = None,
    precision: float = 0.05,
    nothing: float = 0.005,
    may_go_on: bool = True,
) -> Finding | Next:
    """What the launches so far prove, or which comes next.

    Args:
        runs: In the order they were launched.
        limit_s: That of :func:`cut`; the same for every launch.
        precision: The half-width, as a share of the ratio, that is good enough.
        nothing: A gain below this is not pursued: giving up claims nothing, so it is free.
        may_go_on: False once the confirmation has cost enough: what is proven at the next
            look is then final, unless the reference is cut (a search that saw such a ratio and
            a look that does not are worth another one). Stopping for any reason keeps the
            coverage.
    """
    looks, order = (TWO_SIDED, _ABBA) if limit_s is None else (AT_LEAST, _BAB)
    times = {side: [run.elapsed_s for run in runs if run.side == side] for side in order}
    for look in looks:
        bests, references, error = look
        # One side may be ahead, if a launch of the other is found to have ended early.
        best, reference = times["best"][:bests], times["reference"][:references]
        if len(best) < bests or len(reference) < references:
            break
        found = (_two_sided if limit_s is None else _at_least)(reference, best, error)
        newest = runs[-1].side
        is_new = len(times[newest]) == (bests if newest == "best" else references)
        final = look == looks[-1] or (is_new and not may_go_on and limit_s is None)
        if final or _settled(found, precision, nothing):
            return found
    side = _missing(runs, order)
    return Next(side, limit_s if side == "reference" else None)


def _missing(runs: Sequence[Run], order: Sequence[Side]) -> Side:
    """The first side in the order that the runs do not cover."""
    left = Counter(run.side for run in runs)
    for side in itertools.cycle(order):
        if left[side] == 0:
            break
        left[side] -= 1
    return side


def _settled(found: Finding, precision: float, nothing: float) -> bool:
    """True if more launches would change nothing that matters."""
    if found.claim == "faster":
        return (
            found.high is None
            or (found.high - found.low) / 2 / found.ratio < precision
            or found.best_runs >= _PLENTY
        )
    return found.ratio < 1 + nothing or (found.high is not None and found.high < 1 + WORTH)


def _two_sided(reference: Sequence[float], best: Sequence[float], error: float) -> Finding:
    logs = [math.log(a / b) for a, b in zip(reference, best, strict=True)]
    found = interval(logs, error)
    assert found is not None, "each look has enough pairs for its error"
    ratio, low, high = map(math.exp, found)
    claim: Claim = "faster" if low > 1 + WORTH else "slower" if high < 1 else "no significant gain"
    return Finding(ratio, low, high, len(best), len(reference), claim)


def _at_least(reference: Sequence[float], best: Sequence[float], error: float) -> Finding:
    logs = sorted(math.log(a / b) for a in reference for b in best)
    trimmed = rank_sum_trimmed(len(best), len(reference), error)
    assert trimmed is not None, "each look has enough launches for its error"
    low = math.exp(logs[trimmed])
    claim: Claim = "faster" if low > 1 + WORTH else "no significant gain"
    ratio = math.exp(statistics.median(logs))
    return Finding(ratio, low, None, len(best), len(reference), claim)
