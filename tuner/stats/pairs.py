"""Pairs of launches side by side: is the best faster than the reference, and by how much? Pure.

Each pair gives the logarithm of its ratio, reference over best. What differs between the launches
of one setting, and what side by side does not cancel, makes these logarithms scatter about the
truth as a normal distribution. Its spread is estimated from the pairs, with a prior: a scaled
inverse chi-squared distribution (Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.6) of
`_PRIOR_PAIRS` degrees of freedom about `_PRIOR_SD`. So the mean has Student's t distribution.

The evidence is looked at after each pair, up to `MOST_PAIRS`. For a gain the boundary of O'Brien &
Fleming is used (Jennison & Turnbull, Group Sequential Methods, section 2.3), which asks for much in
the first looks and hardly more than a single look in the last. That there is no gain worth having
is said from `_LEAST_PAIRS` on. `python -m benchmarks.pairs` shows by simulation what these figures
cover and how soon they decide; they were chosen by it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tuner.model import Claim, Finding
from tuner.stats.confirm import WORTH

#: After so many pairs nothing more is launched.
MOST_PAIRS = 14

#: What pairs of one setting usually differ by, as the standard deviation of the logarithm, and as
#: how many pairs that counts.
_PRIOR_SD, _PRIOR_PAIRS = 0.02, 3

#: The boundary for a gain at the last look, and that for none, in standard errors of a normal
#: distribution; and the half-width of the interval.
_GAIN, _NO_GAIN, _INTERVAL = 2.04, 1.75, 2.6

#: Fewer pairs never show that there is no gain.
_LEAST_PAIRS = 5


def judge(log_ratios: Sequence[float], precision: float) -> Finding | None:
    """Return what pairs prove, or that they prove nothing if there are as many as may be.

    Args:
        log_ratios: The logarithm of each pair's ratio, reference over best, in their order.
        precision: A gain below this share is not worth having.

    Returns:
        The finding; ``None``: another pair has to tell.
    """
    pairs = len(log_ratios)
    if not pairs:
        return None
    mean = statistics.fmean(log_ratios)
    freedom = _PRIOR_PAIRS + pairs - 1
    squares = sum((log_ratio - mean) ** 2 for log_ratio in log_ratios)
    variance = (_PRIOR_PAIRS * _PRIOR_SD**2 + squares) / freedom
    error = math.sqrt(variance / pairs)

    def half(deviations: float) -> float:
        return student(deviations, freedom) * error

    claim: Claim = "inconclusive"
    if mean - half(_GAIN * math.sqrt(MOST_PAIRS / pairs)) > math.log1p(WORTH):
        claim = "faster"
    elif pairs >= _LEAST_PAIRS and mean + half(_NO_GAIN) < math.log1p(precision):
        claim = "slower" if mean + half(_NO_GAIN) < 0 else "no gain worth having"
    elif pairs < MOST_PAIRS:
        return None
    low, high = math.exp(mean - half(_INTERVAL)), math.exp(mean + half(_INTERVAL))
    return Finding(math.exp(mean), low, high, pairs, pairs, claim)


def student(deviations: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution at which a normal one has ``deviations``.

    Wallace's approximation (D. L. Wallace, Bounds on normal approximations to Student's and the
    chi-square distributions, Ann. Math. Stat. 30, 1959), good to 2 % from 3 degrees of freedom on.
    Beyond some thousands it grows no further.
    """
    scaled = deviations * (8 * freedom + 3) / (8 * freedom + 1)
    exponent = min(scaled * scaled / freedom, 20.0)
    return math.copysign(math.sqrt(freedom * math.expm1(exponent)), deviations)
