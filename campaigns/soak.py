"""A soak: short trials, one after the other, each with a fault drawn by chance.

``python -m campaigns.soak --trials N --seed S [--mpirun PATH] [--first NUMBER]``. The fault of a
trial depends on the seed and its number only: ``--first 120 --trials 4`` makes four of them again.
It ends with 1 if anything was wrong, or if this process uses more and more memory or open files.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.faults import bench, case
from tests.faults.rows import FAULTS, RANKS, JobFault, groups
from tuner.launch.launchers import discovery

#: So many trials are drawn together, and those that can share a study do.
BLOCK = 4

#: Memory and open files of the process that tunes may grow by so much in a soak.
GROWTH, MORE_FILES = 1.15, 4

#: Up to here the process still grows: SQLAlchemy keeps what it compiled for some 200 databases,
#: and each study has one of its own.
WARM = 400


def drawn(seed: int, number: int) -> JobFault:
    """The fault of a trial: of the catalogue; those inside a rank hit any rank at any time."""
    source = random.Random(f"{seed}/{number}")
    fault = source.choice(FAULTS)
    if fault in RANKS and fault.rank != "all":
        fault = replace(fault, rank=source.randrange(bench.RANKS), at=source.randint(1, 4))
    return fault


def usage() -> tuple[int, int]:
    """Memory in use (pages) and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages, len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mpirun")
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args(argv)
    launcher = discovery.find(args.mpirun, environ=os.environ)
    wrong, used, end = 0, list[tuple[int, int]](), args.first + args.trials
    for block in range(args.first, end, BLOCK):
        faults = [drawn(args.seed, number) for number in range(block, min(block + BLOCK, end))]
        for group in groups(faults):
            for report in case.run(group, launcher):
                used.append(usage())
                if report.problems:
                    wrong += 1
                    print(f"--seed {args.seed} --first {block}: {report.text}", flush=True)
    first, last = used[min(WARM, len(used) - 1)], used[-1]
    has_grown = last[0] > first[0] * GROWTH or last[1] > first[1] + MORE_FILES
    growth = f"pages and open files: {used[0]} at the start, {last} at the end"
    print(f"{launcher.kind} {launcher.version}: {len(used)} trials, {wrong} wrong; {growth}")
    return int(bool(wrong) or has_grown)


if __name__ == "__main__":
    sys.exit(main())
