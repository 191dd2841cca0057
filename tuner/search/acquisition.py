"""What a launch is expected to gain, and to cost.

The gain is the knowledge gradient of one more run, each setting taken by itself (Frazier,
Powell & Dayanik, The Knowledge-Gradient Policy for Correlated Normal Beliefs, 2009, section 2).
"""

from __future__ import annotations

import math

import numpy as np

from tuner.search.arrays import Floats


def gradient(ahead: Floats, sd: Floats, noise_sd: Floats) -> Floats:
    """The expected fall of the best mean's logarithm by one run of each setting.

    Args:
        ahead: By how much the setting's mean lies below the best; negative above it.
        sd: Its standard deviation.
        noise_sd: That of a single run.
    """
    shift = sd * sd / np.sqrt(sd * sd + noise_sd**2)
    u = ahead / shift
    density = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    return np.asarray(shift * np.maximum(u * normal_cdf(u) + density, 0.0))


def stays(mean: Floats, sd: Floats, best_log_s: float) -> Floats:
    """The chance that a run comes to its end, and is not stopped early."""
    return normal_cdf((best_log_s + 0.05 - mean) / np.hypot(sd, 0.05))


def cost_s(stays: Floats, best_log_s: float, startup_s: float | None) -> Floats:
    """The expected seconds of a launch: the start-up, and the run if it is not cut early.

    A run that is stopped costs about a fifth of the best one beyond the start-up.
    """
    run_s = math.exp(best_log_s)
    start_s = startup_s or 0.5 * run_s
    return np.asarray(start_s + run_s * (stays + (1 - stays) * 0.2))


def normal_cdf(x: Floats) -> Floats:
    """Abramowitz & Stegun 7.1.26 (error below 1.5e-7): NumPy has no error function."""
    t = np.abs(x) / math.sqrt(2.0)
    k = 1 / (1 + 0.3275911 * t)
    series = -1.453152027 + k * 1.061405429
    for factor in (1.421413741, -0.284496736, 0.254829592):
        series = factor + k * series
    erf = 1 - k * series * np.exp(-t * t)
    return np.asarray(np.where(x >= 0, 0.5 * (1 + erf), 0.5 * (1 - erf)))
