"""What the probe costs in a rank.

    python benchmarks/probe_cost.py [--pairs 40]

Each pair runs the same interpreter with and without the probe, in alternation; the figures are
medians. `start` leaves by os._exit, so that the probe's exit handler does not run: the
difference to a whole run is the report at the exit, which comes after the program's own end.
Of the thread that looks at the main thread the processor time is read from the kernel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tuner.hosts.probe import probe_environment, probe_folder

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
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=40)
    pairs = options.parse_args().pairs
    print(f"{'':24}{'without':>10}{'with':>10}{'ratio':>8}{'added':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, code in PROGRAMS.items():
            compare(name, code, Path(folder), pairs)
        phases(Path(folder))


def compare(name: str, code: str, folder: Path, pairs: int) -> None:
    """One line: a program with and without the probe."""
    # Python keeps compiled modules, as it does where nothing is said.
    skipped = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    environ = {name: value for name, value in os.environ.items() if name not in skipped}
    environ["OMPI_COMM_WORLD_RANK"] = "0"
    probe_folder(folder).mkdir(exist_ok=True)
    watched = environ | probe_environment(folder, environ)
    without_s, with_s = [], []
    for _ in range(pairs):
        without_s.append(seconds(code, environ))
        with_s.append(seconds(code, watched))
    before_s, after_s = statistics.median(without_s), statistics.median(with_s)
    print(
        f"{name:24}{before_s * 1e3:7.1f} ms{after_s * 1e3:7.1f} ms{after_s / before_s:8.2f}"
        f"{(after_s - before_s) * 1e3:7.1f} ms"
    )


def seconds(code: str, environ: dict[str, str]) -> float:
    """The time of one interpreter, s."""
    begun_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)
    return time.perf_counter() - begun_s


def phases(folder: Path) -> None:
    """One line: what the thread costs in a rank, at its start and from then on."""
    environ = {**os.environ, "OMPI_COMM_WORLD_RANK": "0"}
    environ |= probe_environment(folder, environ)
    words = [sys.executable, "-c", PHASES, str(WORK_S), str(WORK_S)]
    ran = subprocess.run(words, env=environ, check=True, capture_output=True, text=True)
    young, later = map(float, ran.stdout.split())
    print(
        f"{'looks at the main thread':24}"
        f"{young:.3%} of a core in the first {WORK_S:.0f} s, {later:.3%} later"
    )


if __name__ == "__main__":
    main()
