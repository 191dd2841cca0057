"""What a trainer pays for the extension and the probe while nobody retunes it."""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tuner.launchers import find, launcher_for
from tuner.observe import probe_environment, probe_folder

RANKS = 2
#: Of an iteration.
MOST_SHARE = 0.005
#: The shortest that the shipped trainers have here, s.
ITERATION_S = 0.05
ITERATIONS = 100

#: Iterations of some work and an exchange; rank 0 tells what the ends of them took, s each.
LOOP = f"""
import sys, time
from mpi4py import MPI
from tuner import live
world, session, spent_s = MPI.COMM_WORLD, live.session(), []
for number in range({ITERATIONS} + 10):
    end_s = time.perf_counter() + {ITERATION_S}
    while time.perf_counter() < end_s:
        sum(range(1000))
    world.Barrier()  # or the wait for the slowest rank would count as ours
    begun_s = time.perf_counter()
    session.step()
    spent_s.append(time.perf_counter() - begun_s)
if world.rank == 0:
    print(session.active, sum(spent_s[10:]) / {ITERATIONS})
"""


def main(options: argparse.Namespace) -> bool:
    """Measure and print; True where the target is met."""
    good = True
    for title, listens in (("outside a study", False), ("in a job that may be retuned", True)):
        found = [_step_s(listens) for _ in range(options.pairs)]
        step_s, most_s = statistics.median(found), max(found)
        share = step_s / ITERATION_S
        good &= share <= MOST_SHARE
        print(
            f"{title:30} {step_s * 1e6:7.1f} us an iteration (at most {most_s * 1e6:.1f}):"
            f" {share:.3%} of {ITERATION_S * 1e3:.0f} ms (<= {MOST_SHARE:.1%})"
            f" {'met' if share <= MOST_SHARE else 'MISSED'}"
        )
    return good


def _step_s(listens: bool) -> float:
    """What the end of an iteration takes, s, in a job of its own."""
    info = find(None, environ=os.environ)
    environ = dict(os.environ) | launcher_for(info).environment(info)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        probe_folder(Path(folder)).mkdir()
        environ |= probe_environment(Path(folder), environ)
        if listens:
            environ["TUNE_LIVE_SOCKET"] = f"{folder}/live.sock"
            server.bind(environ["TUNE_LIVE_SOCKET"])
            server.listen()
            threading.Thread(target=_read, args=(server,), daemon=True).start()
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [info.mpirun, "--oversubscribe", "--bind-to", "none", *root, "-n", str(RANKS)]
        ran = subprocess.run(
            [*command, sys.executable, "-c", LOOP],
            env=environ,
            check=True,
            capture_output=True,
            text=True,
        )
    active, step_s = ran.stdout.split()
    assert active == str(listens), f"the session is active: {active}"
    return float(step_s)


def _read(server: socket.socket) -> None:
    """A supervisor that asks for nothing."""
    line, _ = server.accept()
    while line.recv(1 << 16):
        pass
