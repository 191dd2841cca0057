"""Simulated pairs side by side: do the intervals hold the true ratio, and how soon is it decided?

    python -m benchmarks.pairs [--studies 2000]

A pair's ratio scatters by 1 to 7 % (the standard deviation of its logarithm): that is what two
launches of one setting differ by, 0 to 5 % each, and what is left of neighbours that take 5 to 15 %
in turn, over the 6 to 15 times that side by side lowers the variance. Prints, for each true ratio,
the share of intervals that hold it, the shares of "faster" and of "no gain worth having", the share
that is decided within so many pairs, and the mean number of pairs. It ends with 1 if a coverage is
below 93 %, or if "faster" is said without a gain in more than 5 %.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys

from tuner.model import Finding
from tuner.stats.pairs import MOST_PAIRS, judge

SPREADS = (0.01, 0.015, 0.022, 0.03, 0.045, 0.07)

#: The true ratios, and the number of pairs within which each should be decided.
RATIOS = {1.0: 10, 1.02: 14, 1.05: 14, 1.1: 9, 2.0: 3, 3.4: 3}

PRECISION = 0.02
LEAST_COVERAGE, MOST_FALSE = 0.93, 0.05


def study(ratio: float, spread: float, rng: random.Random) -> Finding:
    """Simulate the pairs of one study until they prove something."""
    log_ratios: list[float] = []
    finding = None
    while finding is None:
        log_ratios.append(rng.gauss(math.log(ratio), spread))
        finding = judge(log_ratios, PRECISION)
    return finding


def main() -> int:
    """Print a line for each spread and ratio; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    is_kept = True
    titles = ("spread", "ratio", "holds", "faster", "no gain", "decided within", "pairs")
    print("{:>7}{:>7}{:>7}{:>8}{:>9}{:>16}{:>7}".format(*titles))
    for spread in SPREADS:
        for ratio, within in RATIOS.items():
            rng = random.Random(f"{spread}/{ratio}")
            findings = [study(ratio, spread, rng) for _ in range(studies)]
            holds = sum(f.low <= ratio <= (f.high or math.inf) for f in findings) / studies
            faster = sum(f.claim == "faster" for f in findings) / studies
            none = sum(f.claim in {"no gain worth having", "slower"} for f in findings) / studies
            decided = sum(f.claim != "inconclusive" and f.best_runs <= within for f in findings)
            pairs = statistics.fmean(f.best_runs for f in findings)
            is_kept &= holds >= LEAST_COVERAGE and (ratio > 1 or faster <= MOST_FALSE)
            print(
                f"{spread:>7.1%}{ratio:>7}{holds:>7.1%}{faster:>8.1%}{none:>9.1%}"
                f"{decided / studies:>9.1%} of {within:>2}{pairs:>7.1f}"
            )
    print(f"at most {MOST_PAIRS} pairs; {'all kept' if is_kept else 'not kept'}")
    return not is_kept


if __name__ == "__main__":
    sys.exit(main())
