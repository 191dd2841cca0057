"""What a job pays for taking orders while it gets none.

The end of an iteration is timed in a job of two ranks; what it is made of, in one rank that does
nothing else, with a tool that gives no order: processor time of the program's thread and of the
probe's, read in the rank. Of the time that a study counts as a step none of it is part. The start
is an interpreter as a rank: without the variables, with the probe as every trial has it, and with
the agent beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuner.hosts.probe import live_file, probe_environment, probe_folder
from tuner.launch.launchers import find, launcher_for
from tuner.live.server import JobServer

RANKS = 2
#: Of an iteration.
MOST_SHARE = 0.005
#: The shortest that the shipped trainers have here, s.
ITERATION_S = 0.05
ITERATIONS = 100

#: Interpreters of each kind are so many times those pairs of jobs: they are quicker.
STARTS = 4

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

#: A rank by itself: an iteration that nobody asks anything of, 50 told, and one of a passive rank.
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
gate = agent._gate
gate._ready.acquire()  # it has connected
print(us(agent.step, number))
def tell():
    gate._steps += [(1e-3, False)] * 50
    gate._tell_steps()
gate._tell_steps()
print(us(tell, 2000))
gate.passive = True
print(us(agent.step, number))
"""


def main(options: argparse.Namespace) -> bool:
    """Measure and print; True if the target is met."""
    good = True
    for title, listens in (("outside a study", False), ("in a job that accepts switches", True)):
        found = [_step_s(listens) for _ in range(options.pairs)]
        step_s, most_s = statistics.median(found), max(found)
        share = step_s / ITERATION_S
        good &= share <= MOST_SHARE
        print(
            f"{title:30} {step_s * 1e6:7.1f} us an iteration (at most {most_s * 1e6:.1f}):"
            f" {share:.3%} of {ITERATION_S * 1e3:.0f} ms (<= {MOST_SHARE:.1%})"
            f" {'met' if share <= MOST_SHARE else 'MISSED'}"
        )
    _print_parts()
    _print_starts(STARTS * options.pairs)
    return good


def _step_s(listens: bool) -> float:
    """What the end of an iteration takes, s, in a job of its own."""
    info = find(None, environ=os.environ)
    ranks = RANKS if listens else 0
    with _probed(launcher_for(info.kind).environment(info), ranks) as environ:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [info.mpirun, "--oversubscribe", "--bind-to", "none", *root, "-n", str(RANKS)]
        active, step_s = _printed([*command, sys.executable, "-c", LOOP], environ)
    assert active == str(listens), f"the session is active: {active}"
    return float(step_s)


def _print_parts() -> None:
    """Processor time of an iteration, of telling the tool and of a passive rank's iteration."""
    with _probed({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, 1) as environ:
        printed = _printed([sys.executable, "-c", RANK], environ)
    step_us, told_us, passive_us = map(float, printed)
    print(f"an iteration without an order  {step_us:7.2f} us")
    print(f"an iteration of a passive rank {passive_us:7.2f} us")
    print(f"50 iterations told to the tool {told_us:7.2f} us, {told_us / 100e3:.2%} of 0.1 s")


def _print_starts(times: int) -> None:
    """The time to an interpreter's end, each kind in turn, medians."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare |= {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    with _probed(bare, 0) as probed, _probed(bare, 1) as agent:
        kinds = {"bare": bare, "probe": probed, "agent": agent}
        spent_s: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(times):
            for kind, environ in kinds.items():
                begun_s = time.perf_counter()
                subprocess.run([sys.executable, "-c", "pass"], env=environ, check=True)
                spent_s[kind].append(time.perf_counter() - begun_s)
    for kind, each_s in spent_s.items():
        print(f"start, {kind:23} {statistics.median(each_s) * 1e3:7.1f} ms")


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

            def read() -> None:
                while not is_over.is_set():
                    server.receive(0.1)
                server.close()

            thread = threading.Thread(target=read)
            thread.start()
            stack.callback(thread.join)
            stack.callback(is_over.set)
        yield environ


def _printed(command: list[str], environ: Mapping[str, str]) -> list[str]:
    """The words that a program prints."""
    ran = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return ran.stdout.split()
