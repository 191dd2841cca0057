"""Launches side by side against launches in turn: how much does the ratio of a pair scatter?

    python -m benchmarks.side_by_side [--pairs 8] [--neighbour]

A NumPy program of one process is launched against itself, and against itself with 10 % more work,
in turn and side by side; each side comes first as often as the other. With ``--neighbour`` a loop
runs beside it on one core, on for 1 to 20 s and off for 1 to 20 s. Prints for each way the median
ratio of the pairs, and the standard deviation of its logarithm.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from campaigns.verdicts import WORK, neighbour
from tests.study_surface import SPEC
from tuner.hosts.machine import this_machine
from tuner.launch import side_by_side, trial
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Finished, Launch, Layout, ObjectiveSpec, Outcome

#: The work of a launch.
ROUNDS = 2000


def request(folder: Path, rounds: int) -> MeasurementRequest:
    """Return a request for one launch of the program, in a folder that is made for it."""
    own = Path(tempfile.mkdtemp(dir=folder))
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    launch = Launch((sys.executable, "-c", WORK, str(rounds)), environ, folder, own / "out", own)
    spec = replace(SPEC, layout=Layout(1), machine=this_machine(), knobs=())
    spec = replace(spec, command=("work",), objective=ObjectiveSpec(kind="wall"))
    return MeasurementRequest(launch, spec, BASELINE)


def log_ratio(outcomes: Sequence[Outcome]) -> float:
    """Return the logarithm of how much longer the second launch took than the first."""
    first, second = (outcome.ending for outcome in outcomes)
    assert isinstance(first, Finished) and isinstance(second, Finished)
    return math.log(second.elapsed_s / first.elapsed_s)


def main() -> None:
    """Print a line for each program and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--neighbour", action="store_true")
    options = parser.parse_args()
    print(f"{'more work':>9} {'way':<12} {'median':>6} {'sd':>6}  ratios")
    with tempfile.TemporaryDirectory() as text, neighbour(is_there=options.neighbour):
        folder = Path(text)
        for more in (0.0, 0.1):
            rounds = (ROUNDS, round(ROUNDS * (1 + more)))
            logs: dict[str, list[float]] = {"in turn": [], "side by side": []}
            for number in range(options.pairs):
                order = (0, 1) if number % 2 else (1, 0)
                alone = {side: trial.run(request(folder, rounds[side])) for side in order}
                logs["in turn"].append(log_ratio((alone[0], alone[1])))
                pair = side_by_side.run([request(folder, rounds[side]) for side in order])
                both = dict(zip(order, pair, strict=True))
                logs["side by side"].append(log_ratio((both[0], both[1])))
            for way, values in logs.items():
                ratios = " ".join(f"{math.exp(value):.3f}" for value in values)
                median, sd = math.exp(statistics.median(values)), statistics.stdev(values)
                print(f"{more:>9.0%} {way:<12} {median:>6.3f} {sd:>6.3f}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
