"""Simulated pairs side by side: do the intervals hold the true ratio, and how soon is it decided?

    python -m benchmarks.pairs [--studies 2000] [--in-turn]

Simulates launches, not ratios. A launch of the best has 4 s of work on the quiet machine; one of
the reference has ``ratio`` times as much. The speed of the machine drifts by some 2 % during a
study, and neighbours take a share of it: they are on, and off, for 0.1 to 100 s. The share is such
that one launch after the other would scatter by 5 % or 10 %; what it does is simulated and printed
("in turn"). Launches of one setting differ by 0 to 5 % for reasons of their own ("launches"), and
as outliers 2 % of them have 1.5 to 3 times as much work. The two launches of a pair take slices of
0.25 s in the order A B B A, as `tuner.launch.side_by_side` does it: the one that begins alternates,
and the rest of the longer one runs alone. "Pairs" is what the logarithms of their ratios scatter by
(1.48 median deviations). Standard deviations are those of logarithms.

Prints for each case the share of intervals that hold the true ratio, the shares of "faster" and of
"no gain", the share that is decided as it should be within so many pairs, the mean number of pairs,
and the median half-width of the interval.

It ends with 1 if a promise is not kept: 93 % of the intervals hold the true ratio, and "faster" is
said of no gain in 5 % of studies at most, where launches differ by 10 % at most; "no gain" is said
of a gain of 5 % or more in 5 % of studies at most, where launches differ by ``MOST_SPREAD`` at
most; and what ``TARGETS`` says. Neighbours and outliers change nothing of that. With ``--in-turn``
the launches of a pair follow one another and are judged by the rule for that; then only the first
two hold.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np

from tuner.model import Finding
from tuner.stats.pairs import IN_TURN, SIDE_BY_SIDE, Rule, judge

WORK_S, SLICE_S = 4.0, 0.25

#: The share of the machine that neighbours take while they are on, and how long they are so.
NEIGHBOUR_SHARES = (0.0, 0.105, 0.2)
LEAST_S, MOST_S = 0.1, 100.0

#: The speed drifts at random: by so much (standard deviation) every so many seconds.
DRIFT, DRIFT_S = 0.005, 5.0

#: How long a study may take, s.
STUDY_S = 600.0

SPREADS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
OUTLIER_SHARES = (0.0, 0.02)
PRECISION = 0.02


@dataclass(frozen=True)
class Target:
    """In this share of studies the claim is right within so many pairs.

    That is promised where launches differ by at most ``spread``.
    """

    claim: str
    pairs: int
    share: float
    spread: float


TARGETS = {
    1.0: Target("no gain worth having", 10, 0.8, 0.02),
    1.05: Target("faster", 14, 0.8, 0.03),
    1.1: Target("faster", 9, 0.9, 0.03),
    1.5: Target("faster", 6, 0.8, 0.02),
    3.4: Target("faster", 8, 0.8, 0.02),
}
LEAST_COVERAGE, MOST_FALSE = 0.93, 0.05
#: "No gain" is seldom said of a gain where launches differ by so much at most.
MOST_SPREAD = 0.05

Rng = np.random.Generator


class Machine:
    """A machine whose speed changes in steps; knows how much work it does until when."""

    def __init__(self, share: float, rng: Rng, study_s: float = STUDY_S) -> None:
        """Draw the times at which neighbours come and go, and the drift.

        Args:
            share: What neighbours take of the machine while they are on.
            rng: The source of the times and the drift.
            study_s: How long the study may take. The drift is as large in a longer one.
        """
        logs = rng.uniform(math.log(LEAST_S), math.log(MOST_S), int(study_s / 7))
        switches = np.cumsum(np.exp(logs)) - rng.uniform(MOST_S, 2 * MOST_S)
        steps = np.arange(0, study_s, DRIFT_S * study_s / STUDY_S)
        self.times = np.sort(np.concatenate((steps, switches[switches > 0])))
        is_busy = np.searchsorted(switches, self.times[:-1], side="right") % 2
        drift = np.exp(np.cumsum(rng.normal(0, DRIFT, len(steps))))
        step = np.searchsorted(steps, self.times[:-1], side="right") - 1
        speeds = drift[step] * (1 - share * is_busy)
        self.done = np.concatenate(([0.0], np.cumsum(speeds * np.diff(self.times))))

    def wall_s(self, begin_s: float, work_s: float) -> float:
        """Return how long some work takes that is begun then and runs alone."""
        done = np.interp(begin_s, self.times, self.done)
        return float(np.interp(done + work_s, self.done, self.times)) - begin_s


def pair(
    machine: Machine, begin_s: float, works_s: tuple[float, float], first: int
) -> tuple[list[float], float]:
    """Run two launches side by side; return how long each ran, and when both had ended."""
    slices = 4 * int(min(works_s) / SLICE_S) + 8
    turns = np.resize((first, 1 - first, 1 - first, first), slices)
    begins_s = begin_s + SLICE_S * np.arange(slices + 1)
    work_s = np.diff(np.interp(begins_s, machine.times, machine.done))
    done_s = [np.cumsum(np.where(turns == side, work_s, 0.0)) for side in (0, 1)]
    last = [int(np.searchsorted(done_s[side], works_s[side])) for side in (0, 1)]
    shorter = int(last[1] < last[0])
    longer, ending = 1 - shorter, min(last)
    walls_s = [SLICE_S * float((turns[:ending] == side).sum()) for side in (0, 1)]
    begun_s = float(begins_s[ending])
    left_s = works_s[shorter] - float(done_s[shorter][ending - 1] if ending else 0)
    rest_s = machine.wall_s(begun_s, left_s)
    tail_s = machine.wall_s(begun_s + rest_s, works_s[longer] - float(done_s[longer][ending]))
    walls_s[shorter] += rest_s
    walls_s[longer] += tail_s
    return walls_s, begun_s + rest_s + tail_s


def pair_in_turn(
    machine: Machine, begin_s: float, works_s: tuple[float, float], first: int
) -> tuple[list[float], float]:
    """Do as :func:`pair`, but run one launch after the other."""
    walls_s, now_s = [0.0, 0.0], begin_s
    for side in (first, 1 - first):
        walls_s[side] = machine.wall_s(now_s, works_s[side])
        now_s += walls_s[side]
    return walls_s, now_s


@dataclass
class Case:
    """Studies of one machine, one program, and one true ratio."""

    share: float
    spread: float
    outliers: float
    ratio: float
    rule: Rule = SIDE_BY_SIDE

    def work_s(self, ratio: float, rng: Rng) -> float:
        """Return how much work one launch has."""
        work_s = WORK_S * ratio * math.exp(rng.normal(0, self.spread))
        return work_s * (rng.uniform(1.5, 3) if rng.random() < self.outliers else 1)

    def study(self, rng: Rng) -> tuple[Finding, list[float], float]:
        """Simulate one study.

        Returns:
            What it finds, the logarithms of the ratios of its pairs, and that of how long one
            launch took at a random time.
        """
        machine, now_s, log_ratios = Machine(self.share, rng), 0.0, list[float]()
        alone_s = machine.wall_s(
            rng.uniform(0, MOST_S), WORK_S * math.exp(rng.normal(0, self.spread))
        )
        finding = None
        while finding is None:
            works_s = self.work_s(1.0, rng), self.work_s(self.ratio, rng)
            make = pair if self.rule is SIDE_BY_SIDE else pair_in_turn
            walls_s, now_s = make(machine, now_s, works_s, first=len(log_ratios) % 2)
            log_ratios.append(math.log(walls_s[1] / walls_s[0]))
            finding = judge(log_ratios, PRECISION, self.rule)
        return finding, log_ratios, math.log(alone_s)

    def line(self, studies: int) -> tuple[str, bool]:
        """Simulate the studies; return their line of the table, and whether promises are kept."""
        seed = [
            round(1000 * figure) for figure in (self.share, self.spread, self.outliers, self.ratio)
        ]
        rng, target = np.random.default_rng(seed), TARGETS[self.ratio]
        results = [self.study(rng) for _ in range(studies)]
        findings = [finding for finding, _, _ in results]
        errors = [log - math.log(self.ratio) for _, log_ratios, _ in results for log in log_ratios]
        scatter = 1.4826 * statistics.median(abs(error) for error in errors)
        in_turn = statistics.pstdev(alone for _, _, alone in results)
        holds = sum(f.low <= self.ratio <= (f.high or math.inf) for f in findings) / studies
        faster = sum(f.claim == "faster" for f in findings) / studies
        none = sum(f.claim in {"no gain worth having", "slower"} for f in findings) / studies
        decided = sum(
            f.pairs <= target.pairs
            and (
                f.claim == "faster" if self.ratio > 1 else f.claim not in {"faster", "inconclusive"}
            )
            for f in findings
        )
        is_promised = self.spread <= target.spread and self.rule is SIDE_BY_SIDE
        share = decided / studies
        pairs = statistics.fmean(f.pairs for f in findings)
        width = statistics.median(((f.high or f.ratio) / f.low) ** 0.5 - 1 for f in findings)
        wrong = faster if self.ratio == 1 else none * (self.spread <= MOST_SPREAD)
        is_missed = is_promised and share < target.share
        is_kept = holds >= LEAST_COVERAGE and wrong <= MOST_FALSE and not is_missed
        promise = f"{'of' if is_promised else '('}{target.share:>4.0%}{'' if is_promised else ')'}"
        line = (
            f"{in_turn:>8.1%}{self.spread:>9.0%}{self.outliers:>9.0%}{self.ratio:>6}{scatter:>7.1%}"
            f"{holds:>7.1%}{faster:>7.1%}{none:>8.1%}"
            f"{share:>9.1%} in {target.pairs:<2} {promise:<8}{pairs:>6.1f}{width:>6.1%}"
            f"{'' if is_kept else '  NOT KEPT'}"
        )
        return line, is_kept


def main() -> int:
    """Print a line for each case; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--in-turn", action="store_true")
    options = parser.parse_args()
    studies, rule = options.studies, IN_TURN if options.in_turn else SIDE_BY_SIDE
    print(
        " in turn launches outliers ratio  pairs  holds faster no gain"
        "  decided  promised pairs width"
    )
    lines_kept = []
    for ratio, share, outliers, spread in product(
        TARGETS, NEIGHBOUR_SHARES, OUTLIER_SHARES, SPREADS
    ):
        line, is_kept = Case(share, spread, outliers, ratio, rule).line(studies)
        print(line, flush=True)
        lines_kept.append(is_kept)
    print("all kept" if all(lines_kept) else f"{lines_kept.count(False)} not kept")
    return not all(lines_kept)


if __name__ == "__main__":
    sys.exit(main())
