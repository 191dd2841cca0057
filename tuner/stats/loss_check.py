"""Checks by its loss whether a training went as well as with the defaults. Pure.

A setting may change the order of sums and of the data, and so the loss by a little. If the loss is
far above all losses of the defaults, the setting has broken the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.stats import noise

#: Stands for a loss that is not a number, or is above this one: the training diverged.
DIVERGED = 1e30

#: A loss up to this many times the greatest of the defaults' is not worse,
RATIO = 2.0
#: and one that lies above it by this many standard deviations of the defaults' is not either,
DEVIATIONS = 6.0
#: nor is one that lies above it by less than this: near 0 ratios say nothing.
DIFFERENCE = 1e-3


def finite(value: object) -> float | None:
    """Return a loss of a log as a finite number, `DIVERGED` for NaN; ``None``: it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and math.isnan(value):
        return DIVERGED
    return float(max(-DIVERGED, min(value, DIVERGED)))  # an integer may be larger than any float


def is_worse(loss: float, defaults: Sequence[float]) -> bool:
    """Return whether a loss lies above the spread of the defaults' losses; never without any."""
    if not defaults or loss - max(defaults) <= DIFFERENCE:
        return False
    if min(defaults) > 0:
        logs = [math.log(value) for value in defaults]
        sd, _ = noise.pooled([logs], noise.NONE)
        return math.log(loss) - max(logs) > max(math.log(RATIO), DEVIATIONS * sd)
    # Log-likelihoods may be negative: then a ratio is one to the largest size among the defaults.
    sd, size = noise.pooled([defaults], noise.NONE)[0], max(abs(value) for value in defaults)
    return loss - max(defaults) > max((RATIO - 1) * size, DEVIATIONS * sd)
