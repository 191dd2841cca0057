"""Pairs of launches side by side: is the best faster than the reference, and by how much? Pure.

Each pair gives the logarithm of its ratio, reference over best. What differs between the launches
of one setting, and what side by side does not cancel, makes these logarithms scatter about the
truth as a normal distribution. Its spread is estimated from the pairs, with a prior: a scaled
inverse chi-squared distribution (Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.6) of
`_PRIOR_PAIRS` degrees of freedom about `_PRIOR_SD`. So the mean has Student's t distribution. Now
and then a launch takes half as long again for no reason that lasts; the pair of such a launch is
left out (`typical`).

The evidence is looked at after each pair, up to `MOST_PAIRS`. For a gain the boundary of O'Brien &
Fleming is used, which asks for much in the first looks and hardly more than a single look in the
last, with the cap of Haybittle & Peto, so that two pairs show a large gain (Jennison & Turnbull,
Group Sequential Methods, sections 2.3 and 2.6). That there is no gain worth having is said from
`_LEAST_PAIRS` on.

`python -m benchmarks.pairs` simulates launches and shows what these figures cover and how soon they
decide; they were chosen by it. The intervals hold the truth in 93 % of studies or more as long as
launches of one setting differ by 5 % at most (standard deviation). A gain of 5 % or 10 % is decided
in time where they differ by 3 % at most, and that there is none where they differ by 2 % at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tuner.model import Claim, Finding
from tuner.stats.confirm import WORTH

#: After so many pairs nothing more is launched.
MOST_PAIRS = 14

#: What pairs of one setting differ by on a quiet machine, as the standard deviation of the
#: logarithm, and as how many pairs that counts. With fewer, two pairs say little of the size; with
#: more, the intervals are too narrow where launches differ by 5 %.
_PRIOR_SD, _PRIOR_PAIRS = 0.015, 3

#: The boundary for a gain, in standard errors of a normal distribution: at the last look, and at
#: most. With the first, "faster" is false in 5 % of studies at most.
_GAIN, _MOST_GAIN = 2.04, 3.3

#: The boundary for no gain. A gain that is 1 % larger than what is worth having is called none in
#: 5 % of studies at most, where launches differ by 2 %.
_NO_GAIN = 1.5

#: The half-width of the interval. Since one stops when the pairs agree, also by chance, it takes
#: more than the 1.96 of a single look.
_INTERVAL = 3.1

#: Fewer pairs never show that there is no gain, and one pair shows nothing.
_LEAST_PAIRS, _LEAST_GAIN_PAIRS = 5, 2

#: A gain is shown until its size is said to within this share. With 6 % instead of 10 %, six more
#: pairs are needed where launches differ by 5 %, and two where they differ by 2 %.
_SIZE = 0.1

#: A pair is left out if its ratio is off the median of at least so many pairs by more than this
#: factor, and by more than so many of the median deviations from it: where all launches scatter by
#: much, none is an outlier.
_OUTLIER_PAIRS, _OUTLIER_FACTOR, _OUTLIER_DEVIATIONS = 4, 1.35, 8


def judge(
    log_ratios: Sequence[float], precision: float, *, is_last: bool = False
) -> Finding | None:
    """Return what pairs prove, or that they prove nothing if there are as many as may be.

    Args:
        log_ratios: The logarithm of each pair's ratio, reference over best, in their order.
        precision: A gain below this share is not worth having.
        is_last: No more pairs are launched, though there are fewer than may be.

    Returns:
        The finding; ``None``: another pair has to tell.
    """
    pairs = len(log_ratios)
    if not pairs:
        return None
    counted = typical(log_ratios)
    mean = statistics.fmean(counted)
    freedom = _PRIOR_PAIRS + len(counted) - 1
    squares = sum((log_ratio - mean) ** 2 for log_ratio in counted)
    variance = (_PRIOR_PAIRS * _PRIOR_SD**2 + squares) / freedom
    error = math.sqrt(variance / len(counted))

    def half(deviations: float) -> float:
        return student(deviations, freedom) * error

    boundary = min(_GAIN * math.sqrt(MOST_PAIRS / pairs), _MOST_GAIN)
    is_proven = pairs >= _LEAST_GAIN_PAIRS and abs(mean) - half(boundary) > math.log1p(WORTH)
    # What is proven is so of the whole interval.
    width = half(min(_INTERVAL, boundary) if is_proven else _INTERVAL)
    is_last = is_last or pairs >= MOST_PAIRS
    claim: Claim = "inconclusive"
    if is_proven and mean > 0:
        if width > math.log1p(_SIZE) and not is_last:
            return None
        claim = "faster"
    elif is_proven or (
        len(counted) >= _LEAST_PAIRS and mean + half(_NO_GAIN) < math.log1p(precision)
    ):
        claim = "slower" if mean + width < 0 else "no gain worth having"
    elif not is_last:
        return None
    missing = MOST_PAIRS - pairs if claim == "inconclusive" and pairs < MOST_PAIRS else None
    low, high = math.exp(mean - width), math.exp(mean + width)
    return Finding(math.exp(mean), low, high, pairs, pairs, claim, missing, is_side_by_side=True)


def typical(log_ratios: Sequence[float]) -> list[float]:
    """Return the logarithms without those of pairs of which one launch was an outlier."""
    if len(log_ratios) < _OUTLIER_PAIRS:
        return list(log_ratios)
    median = statistics.median(log_ratios)
    deviation = statistics.median(abs(log_ratio - median) for log_ratio in log_ratios)
    most = max(math.log(_OUTLIER_FACTOR), _OUTLIER_DEVIATIONS * deviation)
    return [log_ratio for log_ratio in log_ratios if abs(log_ratio - median) <= most]


def student(deviations: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution at which a normal one has ``deviations``.

    Wallace's approximation (D. L. Wallace, Bounds on normal approximations to Student's and the
    chi-square distributions, Ann. Math. Stat. 30, 1959), good to 2 % from 3 degrees of freedom on.
    Beyond some thousands it grows no further.
    """
    scaled = deviations * (8 * freedom + 3) / (8 * freedom + 1)
    exponent = min(scaled * scaled / freedom, 20.0)
    return math.copysign(math.sqrt(freedom * math.expm1(exponent)), deviations)
