"""Verdicts of real studies whose truth is known: of two equal settings, and of one with less work.

    python -m campaigns.verdicts [--studies 20] [--program NAME ...] [--neighbour]

Each study compares one fixed setting with the defaults, which in every second lot of studies have
some 10 % more work. With ``--neighbour`` a loop on one core comes and goes beside them. The truth
of equal settings is 1, else the median of all studies: no program does exactly 10 % more.

It ends with 1 if more than one of the equal ones is called faster or slower, if their median is
off by more than 1 %, if fewer than nine in ten of the others are decided, or if more than one in
ten of the intervals misses the truth.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.light_trainer import MAIN, captured, environment

WORKLOADS = Path(__file__).parents[1] / "workloads"
PYTHON = sys.executable

WORK = """
import sys
import numpy as np
a = np.random.default_rng(0).random((256, 256))
for _ in range(int(sys.argv[1])):
    a = a @ a
    a /= abs(a).max()
"""

#: The neighbour computes until the process that started it is gone.
LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    pass
"""

#: The neighbour is on, and off, for between so many seconds.
LEAST_S, MOST_S = 1.0, 20.0


@contextmanager
def neighbour(*, is_there: bool) -> Iterator[None]:
    """Have a loop come and go meanwhile."""
    over, rng = threading.Event(), random.Random(7)

    def come_and_go() -> None:
        while not over.is_set():
            with subprocess.Popen([PYTHON, "-c", LOOP]) as loop:
                over.wait(rng.uniform(LEAST_S, MOST_S))
                loop.kill()
            over.wait(rng.uniform(LEAST_S, MOST_S))

    thread = threading.Thread(target=come_and_go)
    if is_there:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if is_there:
            thread.join()


class Program(NamedTuple):
    """A program, and what gives it more work."""

    ranks: int
    options: tuple[str, ...]  # of `tune`: its objective
    command: tuple[str, ...]  # with {work}
    work: tuple[int, int]  # the argument of the setting, and of the defaults with more work


TORCH = """
import sys
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.rand(256, 256), torch.randint(10, (256,))
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
"""

CHAINER = "--benchmark -i 40 -j 1 -u {work} --out {out}"
#: Otherwise `tune` would bind the ranks of one side in another way.
UNBOUND = ("--knob", "bind_to=unset")

PROGRAMS = {
    "numpy": Program(1, ("--objective", "wall"), (PYTHON, "-c", WORK, "{work}"), work=(2000, 2200)),
    "chainermn": Program(
        4,
        UNBOUND,
        (PYTHON, f"{WORKLOADS}/chainer_mnist.py", *CHAINER.split()),
        work=(1000, 1060),
    ),
    # Most of its start is the import: only with this much training is 10 % more of it seen.
    "torch": Program(
        1, ("--objective", "wall"), (PYTHON, "-c", TORCH, "{work}"), work=(1500, 1700)
    ),
    "mpi": Program(
        2,
        (*UNBOUND, "--objective", "pattern:time per step: ([0-9.]+)", "--unit", "ms"),
        (PYTHON, f"{WORKLOADS}/mpi_stencil.py", "--benchmark", "--rows", "{work}"),
        work=(800, 880),
    ),
}


class Verdict(NamedTuple):
    """What one study said."""

    claim: str
    ratio: float
    low: float
    high: float
    pairs: int
    is_side_by_side: bool


def study(program: Program, folder: Path, *, has_more: bool) -> Verdict:
    """Run one study."""
    less, more = program.work
    # The knob that changes nothing is the name under which the shell starts the command.
    knob, best, usual = ("work", less, more) if has_more else ("label", 1, 2)
    command = list(program.command)
    if not has_more:
        words = [word.replace("{work}", str(less)) for word in command]
        command = ["sh", "-c", 'exec "$@"', "{label}", *words]
    options = (
        "--name study --json --quiet --live off --learn-from none --trials 1"
        f" --mpi-procs {program.ranks} --knob {knob}={best} --baseline {knob}={usual}"
        # What the environment says for the defaults, too: nothing else may differ.
        " --fix omp_threads=1 --storage tune.db"
    )
    argv = [PYTHON, "-c", MAIN, *options.split(), *program.options, "--", *command]
    run = captured(argv, folder, environment(folder, OMP_NUM_THREADS="1"))
    if run.returncode:
        sys.exit(run.stderr)
    finding = json.loads(run.stdout)["finding"]
    finding["high"] = finding["high"] or float("inf")
    return Verdict(**{name: finding[name] for name in Verdict._fields})


def table(name: str, verdicts: Sequence[Verdict], *, has_more: bool) -> bool:
    """Print what some studies of a program come to; False if a promise is not kept."""
    median = statistics.median(verdict.ratio for verdict in verdicts)
    truth = median if has_more else 1.0
    claims = [verdict.claim for verdict in verdicts]
    right = claims.count("faster") if has_more else claims.count("no gain worth having")
    false = len(verdicts) - right - claims.count("inconclusive")
    held = sum(verdict.low <= truth <= verdict.high for verdict in verdicts)
    pairs = statistics.fmean(verdict.pairs for verdict in verdicts)
    beside = sum(verdict.is_side_by_side for verdict in verdicts)
    print(
        f"{name:<10} {'more work' if has_more else 'equal':<9}: median {median:.3f}, decided"
        f" {right} of {len(verdicts)}, false {false}, intervals hold {held}, {pairs:.1f} pairs,"
        f" {beside} side by side",
        flush=True,
    )
    is_decided = not has_more or right >= 0.9 * len(verdicts)
    is_centred = has_more or abs(median - 1) <= 0.01
    return false <= 1 and is_decided and is_centred and held >= 0.9 * len(verdicts) - 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the studies; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--program", choices=PROGRAMS, action="append")
    parser.add_argument("--neighbour", action="store_true")
    options = parser.parse_args(argv)
    is_kept = True
    with neighbour(is_there=options.neighbour):
        for name in options.program or PROGRAMS:
            for has_more in (False, True):
                verdicts = []
                for number in range(options.studies):
                    with tempfile.TemporaryDirectory() as folder:
                        verdicts.append(study(PROGRAMS[name], Path(folder), has_more=has_more))
                    print(f"  {number + 1:>2} {verdicts[-1]}", flush=True)
                is_kept &= table(name, verdicts, has_more=has_more)
    return not is_kept


if __name__ == "__main__":
    sys.exit(main())
