"""What the probe costs in a rank.

    python -m benchmarks.probe_cost

Each pair runs the same interpreter with and without the probe, in alternation; the figures are
medians. `start` leaves by os._exit, so that the probe's exit handler does not run: the
difference to a whole run is the report at the exit, which comes after the program's own end.
Of the thread that looks at the main thread the processor time is read from the kernel.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import seconds
from tuner.hosts.probe import probe_environment, probe_folder

PAIRS = 40
PROGRAMS = {
    "start (python -c pass)": "import os; os._exit(0)",
    "start and exit": "pass",
    "the same with NumPy": "import numpy",
    "the same with OpenCV": "import cv2",
}

#: Works for so long, 40 calls deep, and tells the share of it that our thread used.
WORK_S = 12.0
PHASES = """
import os, sys, time
def work(depth, seconds):
    if depth:
        return work(depth - 1, seconds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
def ours():
    for task in os.listdir("/proc/self/task"):
        if open(f"/proc/self/task/{task}/comm").read() == "tune-probe\\n":
            return int(open(f"/proc/self/task/{task}/schedstat").read().split()[0]) / 1e9
work(0, 0.1)
for seconds in map(float, sys.argv[1:]):
    before = ours()
    work(40, seconds)
    print((ours() - before) / seconds)
"""


def main() -> None:
    """Measure and print."""
    # Python keeps compiled modules, as it does where nothing is said.
    skipped = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    environ = {name: value for name, value in os.environ.items() if name not in skipped}
    environ["OMPI_COMM_WORLD_RANK"] = "0"
    print(f"{'':24}{'without':>10}{'with':>10}{'ratio':>8}{'added':>10}")
    with tempfile.TemporaryDirectory() as folder:
        probe_folder(Path(folder)).mkdir()
        watched = environ | probe_environment(Path(folder), environ)
        for name, code in PROGRAMS.items():
            argv = [sys.executable, "-c", code]
            pairs = [(seconds(argv, environ), seconds(argv, watched)) for _ in range(PAIRS)]
            before_s, after_s = (statistics.median(each) for each in zip(*pairs, strict=True))
            print(
                f"{name:24}{before_s * 1e3:7.1f} ms{after_s * 1e3:7.1f} ms"
                f"{after_s / before_s:8.2f}{(after_s - before_s) * 1e3:7.1f} ms"
            )
        phases = [sys.executable, "-c", PHASES, str(WORK_S), str(WORK_S)]
        ran = subprocess.run(phases, env=watched, check=True, capture_output=True, text=True)
    young, later = map(float, ran.stdout.split())  # at the start of a rank, and from then on
    print(
        f"{'looks at the main thread':24}"
        f"{young:.3%} of a core in the first {WORK_S:.0f} s, {later:.3%} later"
    )


if __name__ == "__main__":
    main()
