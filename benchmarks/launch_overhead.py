"""What the tool itself adds to a launch, against the very mpirun command run bare.

    python -m benchmarks.launch_overhead

A real study is run; after each of its launches the same command runs bare, without the probe.
The tool's own time is everything but mpirun: the suggestion, the trial's folder, the supervisor,
following the log, the probe, the proof that nothing is left, the database.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import seconds
from tuner.hosts.machine import this_machine
from tuner.launch import trial
from tuner.launch.launchers.discovery import find
from tuner.launch.request import MeasurementRequest
from tuner.model import Env, IntRange, Knob, Layout, Outcome, StudySpec
from tuner.study.tuning import tune

TARGET_S, PAIRS, RANKS = 0.15, 20, 2
PROGRAM = """
import os, sys, time
time.sleep(0.3)
if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")) == "0":
    with open(os.path.join(sys.argv[1], "log"), "w") as file:
        file.write('[{{"iteration": 1, "elapsed_time": 0.3}}]')
"""


class InTurn:
    """Runs each launch of a study, then its command bare, and keeps the difference."""

    def __init__(self) -> None:
        self.own_s: list[float] = []
        self.since = time.perf_counter()

    def __call__(self, request: MeasurementRequest) -> Outcome:
        """In the place of ``trial.run``."""
        outcome, launch = trial.run(request), request.launch
        through_s = time.perf_counter() - self.since
        if outcome.exit_code != 0:
            raise SystemExit(f"a launch failed: {outcome.ending}")
        env = {k: v for k, v in launch.env.items() if k not in {"PYTHONPATH", "TUNE_PROBE_DIR"}}
        self.own_s.append(through_s - seconds(launch.argv, env))
        self.since = time.perf_counter()
        return outcome


def main() -> None:
    """Measure and print."""
    spec = StudySpec(
        name="overhead",
        command=(sys.executable, "-c", PROGRAM, "{out}"),
        launcher=find(None, environ=os.environ),
        layout=Layout(RANKS),
        machine=this_machine(),
        knobs=(Knob("point", IntRange(1, 10 * PAIRS), Env(("POINT",))),),
        trials=PAIRS,
    )
    in_turn = InTurn()
    with tempfile.TemporaryDirectory() as folder:
        tune(spec, storage=f"{folder}/overhead.db", outputs=Path(folder), run=in_turn)
    own_s = in_turn.own_s[2:]  # the first ones pay for imports and for creating the tables
    median_s = statistics.median(own_s)
    verdict = "met" if median_s <= TARGET_S else "missed"
    print(f"{'':24}{'median':>9}{'min':>9}{'max':>9}{'target':>9}")
    print(
        f"{'own time a launch, s':24}{median_s:9.3f}{min(own_s):9.3f}{max(own_s):9.3f}"
        f"{TARGET_S:9.3f}   {verdict} ({len(own_s)} pairs, {RANKS} ranks)"
    )


if __name__ == "__main__":
    main()
