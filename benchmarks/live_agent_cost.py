"""What the agent in a rank costs, while its job is changed as it runs and where nobody asks.

    python benchmarks/live_agent_cost.py [--pairs 40]

`start` is an interpreter as a rank: without the variables, with the probe as every trial has it,
and with the agent beside it. The iterations are those of one rank that does nothing else, with a
supervisor that asks for nothing: processor time of the thread, read in the rank. Of the time that
a study counts as a step none of it is part.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tuner.observe import probe_environment, probe_folder

RANK = """
import sys, time
agent = sys.modules["tune_rank_live"].agent()
number = 100_000
def us(call, number):
    begun_s = time.thread_time()
    for _ in range(number):
        call()
    return (time.thread_time() - begun_s) / number * 1e6
for _ in range(3):
    agent.step()
polls, report = agent._polls, agent._polls._report
polls._poll_at = 10**9
print(us(agent.step, number))
def poll():
    report._steps_s[:] = [1e-3] * 50
    polls._poll(10)
print(us(poll, 2000))
polls.passive = True
print(us(agent.step, number))
"""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=40)
    pairs = options.parse_args().pairs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe_folder(folder).mkdir()
        start(folder, pairs)
        step_us, poll_us, passive_us = iterations(folder)
    print(f"an iteration between two polls {step_us:8.2f} us")
    print(f"an iteration of a passive rank {passive_us:8.2f} us")
    print(f"a poll that tells of 50 steps  {poll_us:8.2f} us, {poll_us / 50e3:.2%} of 50 ms")


def start(folder: Path, pairs: int) -> None:
    """Print the time to an interpreter's end, each kind in turn, medians."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare["OMPI_COMM_WORLD_RANK"] = "0"
    probed = bare | probe_environment(folder, bare)
    kinds = {"bare": bare, "probe": probed, "agent": probed | {"TUNE_LIVE_SOCKET": f"{folder}/no"}}
    spent_s: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(pairs):
        for kind, environ in kinds.items():
            begun_s = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], env=environ, check=True)
            spent_s[kind].append(time.perf_counter() - begun_s)
    for kind, each_s in spent_s.items():
        print(f"start, {kind:24}{statistics.median(each_s) * 1e3:8.1f} ms")


def iterations(folder: Path) -> tuple[float, float, float]:
    """Processor time of an iteration, of a poll and of a passive rank's iteration, us."""
    path = folder / "live"
    environ = {**os.environ, "OMPI_COMM_WORLD_RANK": "0", "TUNE_LIVE_SOCKET": str(path)}
    environ |= probe_environment(folder, environ)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)
        reader = threading.Thread(target=read, args=[server])
        reader.start()
        words = [sys.executable, "-c", RANK]
        ran = subprocess.run(words, env=environ, check=True, capture_output=True, text=True)
        reader.join()
    step_us, poll_us, passive_us = map(float, ran.stdout.split())
    return step_us, poll_us, passive_us


def read(server: socket.socket) -> None:
    """Read all that rank 0 tells."""
    line, _ = server.accept()
    with line:
        while line.recv(1 << 16):
            pass


if __name__ == "__main__":
    main()
