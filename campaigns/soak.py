"""A soak: short trials, one after the other, each with a fault drawn by chance.

``python -m campaigns.soak --trials N --seed S [--mpirun PATH] [--jobs 3] [--json FILE]``;
``--replay SEED:INDEX`` makes one trial again, with those of its study. The fault of a trial
depends on the seed and its index only. It ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.faults import bench, case
from tests.faults.case import FaultReport
from tests.faults.rows import FAULTS, RANKS, JobFault
from tuner.launch import launchers
from tuner.model import LauncherInfo

#: These wait for tens of seconds by their nature.
SLOW = ("the database is locked for good", "a rank loops for ever")

#: So many trials are drawn together, and those that can share a study do.
BLOCK = 4

#: Memory and open files of the process that tunes may grow by so much in a soak.
GROWTH, MORE_FILES = 1.15, 4

#: Up to here the process still grows: SQLAlchemy keeps what it compiled for some 200 databases,
#: and each study has one of its own.
WARM = 400


def drawn(seed: int, index: int) -> JobFault:
    """The fault of a trial: of the catalogue; those inside a rank hit any rank at any time."""
    source = random.Random(f"{seed}/{index}")
    fault = source.choice([each for each in FAULTS if each.name not in SLOW])
    if fault in RANKS and fault.rank != "all":
        fault = replace(fault, rank=source.randrange(bench.RANKS), at=source.randint(1, 4))
    return fault


def usage() -> tuple[int, int]:
    """Memory in use (KiB) and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, files


def cases(seed: int, block: int, trials: int = BLOCK) -> list[tuple[tuple[int, JobFault], ...]]:
    """The trials of a block, those together that one study can have."""
    indices = [block * BLOCK + number for number in range(trials)]
    found = [(index, drawn(seed, index)) for index in indices]
    plain = tuple(each for each in found if each[1].plain)
    return [*([plain] if plain else []), *((each,) for each in found if not each[1].plain)]


def one(
    seed: int, trials: Sequence[tuple[int, JobFault]], launcher: LauncherInfo
) -> list[FaultReport]:
    """The trials of one study."""
    try:
        reports = case.run([fault for _, fault in trials], launcher)
    except Exception as error:
        reports = [FaultReport(fault.name, launcher.kind, ()) for _, fault in trials]
        reports[0].problems.append(f"the test itself failed: {error!r}")
    for (index, _), report in zip(trials, reports, strict=True):
        report.index = index
        if report.problems:
            print(f"--replay {seed}:{index}  {report.text}", flush=True)
    return reports


def work(block: int, seed: int, trials: int, launcher: LauncherInfo) -> list[dict[str, Any]]:
    """The trials of a block, each with what this process then uses."""
    found = []
    for each in cases(seed, block, min(BLOCK, trials - block * BLOCK)):
        for report in one(seed, each, launcher):
            report.memory_kib, report.open_files = usage()
            found.append({**json.loads(report.line), "process": os.getpid()})
    return found


def grown(reports: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    """What each process used on the way, in words, and whether any has grown."""
    lines, has_grown = [], False
    for process in dict.fromkeys(each["process"] for each in reports):
        used = [
            (each["memory_kib"], each["open_files"])
            for each in reports
            if each["process"] == process
        ]
        first, last = used[min(WARM, len(used) - 1)], used[-1]
        has_grown |= last[0] > first[0] * GROWTH or last[1] > first[1] + MORE_FILES
        points = (used[0], used[len(used) // 2], last)
        text = ", ".join(f"{kib / 1024:.0f} MiB {files} files" for kib, files in points)
        lines.append(f"process {process}: {text} (start, middle, end)")
    return lines, has_grown


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mpirun")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("soak.json"))
    parser.add_argument("--replay", metavar="SEED:INDEX")
    args = parser.parse_args(argv)
    launcher = launchers.find(args.mpirun, environ=os.environ)
    if args.replay:
        seed, index = map(int, args.replay.split(":"))
        chosen = [each for each in cases(seed, index // BLOCK) if index in dict(each)]
        return int(any(report.problems for each in chosen for report in one(seed, each, launcher)))
    begun_s, reports = time.monotonic(), list[dict[str, Any]]()
    play = partial(work, seed=args.seed, trials=args.trials, launcher=launcher)
    with get_context("fork").Pool(args.jobs) as pool, args.json.open("w") as file:
        for found in pool.imap_unordered(play, range(math.ceil(args.trials / BLOCK))):
            reports += found
            file.writelines(json.dumps(each) + "\n" for each in found)
    wrong = sum(bool(each["problems"]) for each in reports)
    lines, has_grown = grown(reports)
    print(
        f"{launcher.kind} {launcher.version}, seed {args.seed}: {len(reports)} of {args.trials}"
        f" trials, {len({each['fault'] for each in reports})} faults,"
        f" {sum(each['launches'] for each in reports)} launches, {wrong} wrong",
        *lines,
        f"{time.monotonic() - begun_s:.0f} s{', and memory or open files have grown' * has_grown}",
        sep="\n",
    )
    return int(bool(wrong) or has_grown or len(reports) < args.trials)


if __name__ == "__main__":
    sys.exit(main())
