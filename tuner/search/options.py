"""When the search ends, and the figures of its rules, which were chosen on surfaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The figures of the search. ``trials`` to ``precision`` are the user's."""

    trials: int = 50  # distinct settings
    budget_s: float | None = None  # of launches, wall time
    until: float = 0.01  # end once going on is expected to gain less than this share; 0: never
    precision: float = 0.02  # contenders are told apart as far as this share
    least_trials: int = 8  # before convergence counts
    repeat_factor: float = 1.4  # a repeat at this multiple of its own estimate: an outlier
    most_repeats: int = 12
    precision_share: float = 0.5  # repeats end once the expected regret is this share of it
    # added for each octave of too few cores, where windows were measured: what a setting starts
    # at the beginning of a run is in no window
    core_price: float = 0.02
    step_share: float = 0.05  # a launch that gains less than this share of `until` is idle
    hidden_share: float = 1.5  # and ends it if all that is hidden is below this share
    windows_share: float = 2.0  # in running jobs this alone ends it: all that is hidden
    patience: float = 0.1  # or if it is below this share of idle
    overdone_log: float = 0.4  # slower than the incumbent by this logarithm: overdone
    overdone_share: float = 0.1  # of the expected gain that is left to what is beyond
    beside_sds: float = -2.5  # a neighbour this unlikely to be better is left out
