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


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The reports of all files, one a line."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


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


def work(blocks: Sequence[int], args: argparse.Namespace, info: LauncherInfo, path: Path) -> None:
    """The trials of one process, each with what the process then uses."""
    for block in blocks:
        for trials in cases(args.seed, block, min(BLOCK, args.trials - block * BLOCK)):
            for report in one(args.seed, trials, info):
                report.memory_kib, report.open_files = usage()
                with path.open("a") as file:
                    file.write(report.line + "\n")


def replay(text: str, launcher: LauncherInfo) -> int:
    """Make the trial SEED:INDEX again, with those of its study."""
    seed, index = map(int, text.split(":"))
    chosen = [each for each in cases(seed, index // BLOCK) if index in dict(each)]
    return int(any(report.problems for each in chosen for report in one(seed, each, launcher)))


def in_processes(args: argparse.Namespace, info: LauncherInfo, paths: Sequence[Path]) -> None:
    """All trials, by so many processes at once."""
    children = []
    blocks = range(math.ceil(args.trials / BLOCK))
    for job, path in enumerate(paths):
        child = os.fork()
        if child == 0:
            try:
                work(blocks[job :: len(paths)], args, info, path)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def flat(paths: Sequence[Path]) -> list[str]:
    """What each process used on the way, in words; with ``!`` if that has grown."""
    lines = []
    for number, path in enumerate(paths):
        found = [(each["memory_kib"], each["open_files"]) for each in read([path])]
        first, last = found[min(WARM, len(found) - 1)], found[-1]
        grown = last[0] > first[0] * GROWTH or last[1] > first[1] + MORE_FILES
        points = [found[0], found[len(found) // 2], last]
        text = ", ".join(f"{kib / 1024:.0f} MiB {files} files" for kib, files in points)
        lines.append(f"{'! ' if grown else ''}process {number}: {text} (start, middle, end)")
    return lines


def summary(paths: Sequence[Path], trials: int) -> tuple[list[str], bool]:
    """What came of it, and whether all is well."""
    reports = read(paths)
    wrong = [each for each in reports if each["problems"]]
    lines = [
        f"{len(reports)} of {trials} trials, {len({each['fault'] for each in reports})} faults,"
        f" {sum(each['launches'] for each in reports)} launches, {len(wrong)} wrong",
        *(use := flat(paths)),
    ]
    grown = any(line.startswith("!") for line in use)
    return lines, not (wrong or grown or len(reports) < trials)


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
        return replay(args.replay, launcher)
    paths = [Path(f"{args.json}.{job}") for job in range(min(args.jobs, args.trials))]
    for path in paths:
        path.unlink(missing_ok=True)
    started_s = time.monotonic()
    in_processes(args, launcher, paths)
    lines, well = summary(paths, args.trials)
    print(f"{launcher.kind} {launcher.version}, seed {args.seed}:")
    print("\n".join(lines))
    print(f"{time.monotonic() - started_s:.0f} s")
    args.json.write_text("".join(path.read_text() for path in paths))
    for path in paths:
        path.unlink()
    return not well


if __name__ == "__main__":
    sys.exit(main())
