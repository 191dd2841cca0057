"""Whether a training came to what it comes to with the defaults, told by its loss (pure).

A setting may change the order of sums and of the data, and so the loss by a little; if it
comes out far above all that the defaults gave, the setting has broken the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.stats import noise

#: What stands for a loss that is not a number any more, or is beyond it: the training diverged.
DIVERGED = 1e30

#: A loss up to this many times the greatest of the defaults' is none the worse.
RATIO = 2.0
#: Nor is one within this many standard deviations of the defaults' own.
DEVIATIONS = 6.0
#: Nor is a difference below this: near 0 ratios say nothing.
DIFFERENCE = 1e-3


def finite(value: object) -> float | None:
    """Return a loss of a log as a number: `DIVERGED` for what is none, ``None`` without one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and math.isnan(value):
        return DIVERGED
    return float(max(-DIVERGED, min(value, DIVERGED)))  # an integer may be larger than any float


def is_worse(loss: float, usual: Sequence[float]) -> bool:
    """Return whether a loss lies above the spread of the defaults' losses; never without any."""
    if not usual or loss - max(usual) <= DIFFERENCE:
        return False
    if min(usual) > 0:
        logs = [math.log(value) for value in usual]
        sd, _ = noise.pooled([logs], noise.NONE)
        return math.log(loss) - max(logs) > max(math.log(RATIO), DEVIATIONS * sd)
    # Log-likelihoods may be negative: then the size of the usual ones is the measure.
    sd, size = noise.pooled([usual], noise.NONE)[0], max(abs(value) for value in usual)
    return loss - max(usual) > max((RATIO - 1) * size, DEVIATIONS * sd)
