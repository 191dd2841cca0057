"""What a job pays for taking orders while it gets none.

    python -m benchmarks.live_cost [--pairs 10]

The end of an iteration is timed in a job of two ranks, outside a study and in a job that accepts
switches. `benchmarks/probe_cost.py` has the start of an interpreter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuner.hosts.probe import live_file, probe_environment, probe_folder
from tuner.launch.launchers import find, launcher_for
from tuner.live.job_server import JobServer

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


def main() -> int:
    """Measure and print; 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    pairs, good = parser.parse_args().pairs, True
    for title, listens in (("outside a study", False), ("in a job that accepts switches", True)):
        steps_s = [_step_s(listens) for _ in range(pairs)]
        step_s, most_s = statistics.median(steps_s), max(steps_s)
        share = step_s / ITERATION_S
        good &= share <= MOST_SHARE
        print(
            f"{title:30} {step_s * 1e6:7.1f} us an iteration (at most {most_s * 1e6:.1f}):"
            f" {share:.3%} of {ITERATION_S * 1e3:.0f} ms (<= {MOST_SHARE:.1%})"
            f" {'met' if share <= MOST_SHARE else 'MISSED'}"
        )
    return int(not good)


def _step_s(listens: bool) -> float:
    """What the end of an iteration takes, s, in a job of its own."""
    info = find(None, environ=os.environ)
    ranks = RANKS if listens else 0
    with _probed(launcher_for(info.kind).environment(info), ranks) as environ:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [info.mpirun, "--oversubscribe", "--bind-to", "none", *root, "-n", str(RANKS)]
        program = [*command, sys.executable, "-c", LOOP]
        ran = subprocess.run(program, env=environ, check=True, capture_output=True, text=True)
    active, step_s = ran.stdout.split()
    assert active == str(listens), f"the session is active: {active}"
    return float(step_s)


@contextmanager
def _probed(more: Mapping[str, str], ranks: int) -> Iterator[dict[str, str]]:
    """The environment of a trial, with ``more``; the tool listens to so many ranks."""
    environ = {**os.environ, **more}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        probe_folder(folder).mkdir()
        environ |= probe_environment(folder, environ)
        if ranks:
            server, is_over = JobServer(ranks, live_file(folder).write_text), threading.Event()
            server.listen()

            def read() -> None:
                while not is_over.is_set():
                    server.receive(0.1)
                server.close()

            thread = threading.Thread(target=read)
            thread.start()
            stack.callback(thread.join)
            stack.callback(is_over.set)
        yield environ


if __name__ == "__main__":
    sys.exit(main())
