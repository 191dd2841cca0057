"""What recording a launch costs: the recorder's own CPU time, and the time of the job beside it.

    python benchmarks/telemetry_cost.py [--pairs 6]

The jobs: 8 ranks with 4 workers each that all work and sleep in turn, and 64 ranks that sleep.
The same job runs with and without the recorder, in alternation; the ratio is that of the median
times. The recorder's CPU time is that of its thread, over the whole launch.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tuner.hosts import process
from tuner.hosts.observe import Watcher
from tuner.hosts.telemetry.recording import Recorder
from tuner.launch import monitor
from tuner.model import Launch

#: Of one core.
TARGET = 0.01

#: A rank with its workers: each does so many turns of some milliseconds, and sleeps in between.
WORKING = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        break
for _ in range(int(sys.argv[2])):
    sum(range(20_000))
    time.sleep(0.02)
"""


def main() -> int:
    """Measure and print; 0 where the target is kept."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=6)
    pairs = options.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "rank.py"
        script.write_text(WORKING)
        working = [shlex.join([sys.executable, str(script), "4", "150"])] * 8
        kept = compare("8 ranks, 4 workers each", working, Path(folder), pairs)
        kept &= compare("64 sleeping ranks", ["sleep 4"] * 64, Path(folder), max(1, pairs // 3))
    return 0 if kept else 1


def compare(name: str, ranks: list[str], folder: Path, pairs: int) -> bool:
    """One line: a job with and without the recorder; True where the target is kept."""
    begun = [f"OMPI_COMM_WORLD_RANK={rank} {line} &" for rank, line in enumerate(ranks)]
    argv = ("sh", "-c", " ".join([*begun, "wait"]))
    launch = Launch(argv, dict(os.environ), folder, folder, folder)
    without_s, with_s, costs, points = [], [], [], []
    for _ in range(pairs):
        without_s.append(followed(launch, None))
        recorder = Recorder(tuple, ranks=len(ranks), gpus=False, environ={})
        with_s.append(followed(launch, recorder))
        costs.append(recorder.telemetry.cost_cores)
        assert recorder.telemetry.tracks, recorder.telemetry.gaps
        points.append(len(recorder.telemetry.tracks[-1].times_s))
        assert len(recorder.telemetry.tracks) == len(ranks) + 1, recorder.telemetry.gaps
    cost, ratio = statistics.median(costs), statistics.median(with_s) / statistics.median(without_s)
    print(
        f"{name:24} {cost:6.2%} of a core  {'ok' if max(costs) < TARGET else 'OVER'}"
        f" (most {max(costs):.2%}, target {TARGET:.0%}); the job takes {ratio:.3f} times as long"
        f" ({statistics.median(without_s):.1f} s, {pairs} pairs, {min(points)} looks)"
    )
    return max(costs) < TARGET


def followed(launch: Launch, recorder: Recorder | None) -> float:
    """The time of a launch that is watched as a trial is, s."""
    running, watcher = process.start(launch), Watcher(launch.folder)
    begun_s = looked_s = time.monotonic()
    with ExitStack() as stack:
        stack.callback(running.stop)
        if recorder is not None:
            recorder.members = lambda: watcher.members
            stack.enter_context(recorder)
        while running.wait(monitor.TICK_S) is None:
            if time.monotonic() - looked_s >= monitor.SAMPLE_S or not watcher.members:
                looked_s = time.monotonic()
                watcher.sample(running.pids())
        return time.monotonic() - begun_s


if __name__ == "__main__":
    raise SystemExit(main())
