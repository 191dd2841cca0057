"""Pairs of launches: is the best faster than the reference, and by how much? Pure.

Each pair gives the logarithm of its ratio, reference over best. What differs between the launches
of one setting, and what the machine did to one and not to the other, makes these logarithms scatter
about the truth as a normal distribution. Its spread is estimated from the pairs, with a prior: a
scaled inverse chi-squared distribution (Gelman et al., Bayesian Data Analysis, 3rd ed., section
2.6). So the mean has Student's t distribution. Now and then a launch takes half as long again for
no reason that lasts; the pair of such a launch is left out (`typical`).

The evidence is looked at after each pair. For a gain the boundary of O'Brien & Fleming is used,
which asks for much in the first looks and hardly more than a single look in the last, with the cap
of Haybittle & Peto, so that few pairs show a large gain (Jennison & Turnbull, Group Sequential
Methods, sections 2.3 and 2.6). That there is no gain worth having is said from `_LEAST_PAIRS` on.

`python -m benchmarks.pairs` simulates launches and shows what these figures cover and how soon they
decide; they were chosen by it. The intervals hold the truth in 93 % of studies or more where
launches of one setting differ by 10 % at most (standard deviation), and in 87 % where they differ
by 30 %. The prior counts as one pair only: as three, two pairs that agree by chance would claim too
much. Side by side a gain of 5 % or 10 % is decided in time where launches differ by 3 % at most,
and that there is none where they differ by 2 % at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.model import Claim, Finding
from tuner.stats.noise import RUNS

#: A gain is claimed if it is proven to be more than this share: less pays for nobody's
#: change of settings, and hosts differ by as much from one day to the next.
WORTH = 0.01
#: The size of a large gain is said to within this share of its logarithm.
_SIZE_OF_LOG = 0.15


@dataclass(frozen=True)
class Rule:
    """How pairs are judged, which depends on how their launches are made."""

    #: The usual standard deviation of the logarithm between pairs of one setting; it counts as one
    #: pair.
    prior_sd: float
    least_pairs: int  # fewer prove nothing
    most_pairs: int  # after this many no other pair is launched
    #: A gain is shown until its size is said to within this share, or its logarithm to within 15 %,
    #: which is less for a gain of 1.9 times and more.
    size: float
    #: The boundary for no gain, in standard errors of a normal distribution. A gain of 5 % is
    #: called none in 5 % of studies at most. The more pairs there may be, the more often one looks.
    no_gain: float
    is_side_by_side: bool = True


#: With a size of 6 % six more pairs are needed where launches differ by 5 %, and two at 2 %.
SIDE_BY_SIDE = Rule(prior_sd=0.015, least_pairs=2, most_pairs=14, size=0.1, no_gain=1.4)

#: Launches one after the other meet a machine that changes. So that a neighbour who comes and goes
#: decides nothing by chance, three pairs have to agree.
IN_TURN = Rule(
    prior_sd=RUNS.sd,
    least_pairs=3,
    most_pairs=24,
    size=math.inf,
    no_gain=1.7,
    is_side_by_side=False,
)

#: Side by side too, but each launch is over after a few slices: little of what the machine does
#: meanwhile is cancelled.
FEW_SLICES = Rule(prior_sd=RUNS.sd, least_pairs=3, most_pairs=14, size=math.inf, no_gain=1.7)

#: The boundary for a gain, in standard errors of a normal distribution: at the last look, and the
#: highest, at the first ones. With that of the last, "faster" is false in 5 % of studies at most.
_GAIN, _MOST_GAIN = 2.04, 3.3

#: The half-width of the interval, in standard errors. As launches end once the pairs agree, also by
#: chance, it is more than the 1.96 of a single look.
_INTERVAL = 2.8

#: Fewer pairs never show that there is no gain.
_LEAST_PAIRS = 5
#: "No gain" is not claimed as long as the interval allows a gain of more than this share.
_MOST_GAIN_ALLOWED = 0.1

#: Among this many pairs or more, one is left out if its ratio is off the median by more than this
#: factor, and by more than this many of the median deviations: where all launches scatter by much,
#: none is an outlier.
_OUTLIER_PAIRS, _OUTLIER_FACTOR, _OUTLIER_DEVIATIONS = 4, 1.35, 8
#: If more than one pair of so many are off, the pairs are of two kinds, and none is left out.
_PAIRS_OF_AN_OUTLIER = 6


def judge(
    log_ratios: Sequence[float],
    precision: float,
    rule: Rule = SIDE_BY_SIDE,
    *,
    bias: float = 0.0,
    at_least: bool = False,
    is_last: bool = False,
) -> Finding | None:
    """Return what pairs prove, or that they prove nothing if no more are launched (``is_last``).

    ``None``: another pair has to tell. Each pair has the logarithm of its ratio, reference over
    best, and a gain below ``precision`` is not worth having. All logarithms may be off by the same
    ``bias``: the interval is wider by that, as more pairs do not help. If the ratios are lower
    bounds (``at_least``), the interval has only a lower end, and "no gain" is never claimed.
    """
    pairs = len(log_ratios)
    if not pairs:
        return None
    logs = typical(log_ratios)
    mean = statistics.fmean(logs)
    freedom = len(logs)  # one less, and one for the prior
    squares = sum((log_ratio - mean) ** 2 for log_ratio in logs)
    variance = (rule.prior_sd**2 + squares) / freedom
    error = math.sqrt(variance / len(logs))

    def half(deviations: float) -> float:
        return student(deviations, freedom) * error

    boundary = min(_GAIN * math.sqrt(rule.most_pairs / pairs), _MOST_GAIN)
    is_proven = pairs >= rule.least_pairs and abs(mean) - bias - half(boundary) > math.log1p(WORTH)
    # The interval of a claim that is proven holds no ratio that contradicts it.
    width = half(min(_INTERVAL, boundary) if is_proven else _INTERVAL)
    is_last = is_last or pairs >= rule.most_pairs
    has_no_gain = (
        len(logs) >= _LEAST_PAIRS
        and mean + bias + half(rule.no_gain) < math.log1p(precision)
        and mean + bias + width < math.log1p(max(precision, _MOST_GAIN_ALLOWED))
    )
    claim: Claim = "inconclusive"
    if is_proven and mean > 0:
        most_width = max(math.log1p(rule.size), _SIZE_OF_LOG * mean)
        if width > most_width and not is_last and not at_least:
            return None
        claim = "faster"
    elif not at_least and (is_proven or has_no_gain):
        claim = "slower" if mean + bias + width < 0 else "no gain worth having"
    elif not is_last:
        return None
    is_open = claim == "inconclusive" and pairs < rule.most_pairs
    return Finding(
        ratio=math.exp(mean),
        low=math.exp(mean - bias - width),
        high=None if at_least else math.exp(mean + bias + width),
        pairs=pairs,
        claim=claim,
        pairs_missing=rule.most_pairs - pairs if is_open else None,
        is_side_by_side=rule.is_side_by_side,
    )


def typical(log_ratios: Sequence[float]) -> list[float]:
    """Return the logarithms without those of pairs in which a launch was an outlier."""
    if len(log_ratios) < _OUTLIER_PAIRS:
        return list(log_ratios)
    median = statistics.median(log_ratios)
    deviation = statistics.median(abs(log_ratio - median) for log_ratio in log_ratios)
    most_off = max(math.log(_OUTLIER_FACTOR), _OUTLIER_DEVIATIONS * deviation)
    usual = [log_ratio for log_ratio in log_ratios if abs(log_ratio - median) <= most_off]
    outliers, most = len(log_ratios) - len(usual), max(1, len(log_ratios) // _PAIRS_OF_AN_OUTLIER)
    return usual if outliers <= most else list(log_ratios)


def student(deviations: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution at which a normal one has ``deviations``.

    Wallace's approximation (D. L. Wallace, Bounds on normal approximations to Student's and the
    chi-square distributions, Ann. Math. Stat. 30, 1959), good to 2 % from 3 degrees of freedom on.
    Beyond some thousands it grows no further.
    """
    scaled = deviations * (8 * freedom + 3) / (8 * freedom + 1)
    exponent = min(scaled * scaled / freedom, 20.0)
    return math.copysign(math.sqrt(freedom * math.expm1(exponent)), deviations)
